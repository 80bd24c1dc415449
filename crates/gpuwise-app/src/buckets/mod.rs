//! Files in buckets that speak the protocol of Amazon S3: listed, and brought here to be read.

mod sign;

use crate::error::Problem;
use sign::{Keys, Request, encoded, headers, query};
use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    time::Duration,
};
use tempfile::TempDir;
use ureq::{Agent, Body, http::Response};

const SCHEME: &str = "s3://";
/// Bytes of one answer to a listing, which has a thousand names at most.
const LARGEST_LISTING: u64 = 16 << 20;
/// How long a server may take to answer at all.
const PATIENCE: Duration = Duration::from_secs(30);

/// A bucket, and a key or the beginning of keys in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Address<'a> {
    bucket: &'a str,
    key: &'a str,
}

/// The address of a file in a bucket, where it is one.
pub(crate) fn address(path: &Path) -> Option<Address<'_>> {
    let (bucket, key) = {
        let rest = path.to_str()?.strip_prefix(SCHEME)?;
        rest.split_once('/').unwrap_or((rest, ""))
    };
    Some(Address { bucket, key })
}

/// A file of a bucket on this machine, for as long as this is held.
#[derive(Debug)]
pub(crate) struct Brought {
    _folder: TempDir,
    pub(crate) path: PathBuf,
}

/// A server that holds buckets, as the variables say that AWS's own tools read.
pub(crate) struct Buckets {
    agent: Agent,
    keys: Keys,
    region: String,
    /// Where it is not Amazon's.
    endpoint: Option<String>,
}

impl Buckets {
    /// # Errors
    /// When the network must not be used, or no keys are set.
    pub(crate) fn new(offline: bool) -> anyhow::Result<Self> {
        if offline {
            return Err(Problem::new("--offline: no bucket is asked")
                .hint("bring the files here and name their directory")
                .into());
        }
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let key = |name: &str| {
            set(name).ok_or_else(|| {
                Problem::new(format!("{name} is not set"))
                    .hint("buckets are asked with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and AWS_SESSION_TOKEN where there is one")
            })
        };
        let region = set("AWS_REGION").or_else(|| set("AWS_DEFAULT_REGION"));
        let endpoint = set("AWS_ENDPOINT_URL_S3").or_else(|| set("AWS_ENDPOINT_URL"));
        Ok(Self {
            agent: Agent::config_builder()
                .timeout_connect(Some(PATIENCE))
                .timeout_recv_response(Some(PATIENCE))
                .http_status_as_error(false)
                // A signature is for one host.
                .max_redirects(0)
                .max_redirects_will_error(false)
                .user_agent(concat!("gpuwise/", env!("CARGO_PKG_VERSION")))
                .build()
                .new_agent(),
            keys: Keys {
                id: key("AWS_ACCESS_KEY_ID")?,
                secret: key("AWS_SECRET_ACCESS_KEY")?,
                session: set("AWS_SESSION_TOKEN"),
            },
            region: region.unwrap_or_else(|| "us-east-1".into()),
            endpoint: endpoint.map(|url| url.trim_end_matches('/').to_owned()),
        })
    }

    /// Files of the bucket whose keys begin so, in the order of their names.
    ///
    /// # Errors
    /// When the server cannot be asked or refuses.
    pub(crate) fn list(&self, of: Address<'_>) -> anyhow::Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        let mut token = String::new();
        loop {
            let mut asked = vec![
                ("encoding-type", "url"),
                ("list-type", "2"),
                ("prefix", of.key),
            ];
            if !token.is_empty() {
                asked.insert(0, ("continuation-token", &token));
            }
            let answer = self.get(of.bucket, "", &asked)?;
            let body = answer.into_body().into_with_config();
            let text = body.limit(LARGEST_LISTING).read_to_string();
            let text = text.map_err(|error| self.failed(of, error))?;
            for key in tags(&text, "Key") {
                files.push(PathBuf::from(format!(
                    "{SCHEME}{}/{}",
                    of.bucket,
                    decoded(key)
                )));
            }
            match tags(&text, "NextContinuationToken").next() {
                Some(next) if next != token => token = next.replace("&amp;", "&"),
                _ => return Ok(files),
            }
        }
    }

    /// A file of a bucket.
    ///
    /// # Errors
    /// When it is not there, the server refuses, or there is no room for it.
    pub(crate) fn bring(&self, of: Address<'_>) -> anyhow::Result<Brought> {
        let cannot = |error: io::Error| {
            Problem::new(format!("{}: cannot be brought here", of.shown())).because(error)
        };
        let folder = tempfile::tempdir().map_err(cannot)?;
        let name = of
            .key
            .rsplit('/')
            .next()
            .filter(|name| !name.is_empty() && *name != "..");
        let path = folder.path().join(name.unwrap_or("profile"));
        let mut body = self.get(of.bucket, of.key, &[])?.into_body().into_reader();
        let mut file = File::create(&path).map_err(cannot)?;
        io::copy(&mut body, &mut file).map_err(cannot)?;
        Ok(Brought {
            _folder: folder,
            path,
        })
    }

    fn get(
        &self,
        bucket: &str,
        key: &str,
        asked: &[(&str, &str)],
    ) -> anyhow::Result<Response<Body>> {
        let of = Address { bucket, key };
        let key = encoded(key, "/");
        let amazon = format!("https://{bucket}.s3.{}.amazonaws.com", self.region);
        let (base, path) = match &self.endpoint {
            Some(endpoint) => (endpoint, format!("/{bucket}/{key}")),
            None => (&amazon, format!("/{key}")),
        };
        let host = base
            .split_once("://")
            .map_or(base.as_str(), |(_, rest)| rest);
        let at = jiff::Timestamp::now()
            .strftime("%Y%m%dT%H%M%SZ")
            .to_string();
        let signed = headers(
            &Request {
                host: host.split('/').next().unwrap_or(host),
                path: &path,
                query: asked,
                region: &self.region,
                at: &at,
            },
            &self.keys,
        );
        let mut request = self
            .agent
            .get(format!("{base}{path}?{}", query(asked)).trim_end_matches('?'));
        for (name, value) in signed {
            request = request.header(name, value);
        }
        let answer = request.call().map_err(|error| self.failed(of, error))?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let status = answer.status();
        let hint = match status.as_u16() {
            403 => {
                "are AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY those of who may read it, and is this machine's clock right?"
            }
            404 => "is that the bucket's name, and AWS_ENDPOINT_URL its server?",
            301 | 307 => "it lies in another region: set AWS_REGION",
            _ => "the server says no more",
        };
        Err(
            Problem::new(format!("{}: the server answers {status}", of.shown()))
                .hint(hint)
                .into(),
        )
    }

    fn failed(&self, of: Address<'_>, error: ureq::Error) -> Problem {
        let at = self.endpoint.as_deref().unwrap_or("Amazon S3");
        Problem::new(format!("{} at {at} cannot be asked", of.shown())).because(error)
    }
}

impl Address<'_> {
    fn shown(self) -> String {
        format!("{SCHEME}{}/{}", self.bucket, self.key)
    }
}

/// Texts between tags of a name. Keys are asked for encoded, so that no sign of markup is in them.
fn tags<'t>(text: &'t str, name: &str) -> impl Iterator<Item = &'t str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let mut rest = text;
    std::iter::from_fn(move || {
        let from = rest.find(&open)? + open.len();
        let length = rest.get(from..)?.find(&close)?;
        let found = rest.get(from..from + length)?;
        rest = rest.get(from + length..)?;
        Some(found)
    })
}

/// A text without its percent signs.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let mut ahead = rest.clone();
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        match (byte, digit(ahead.next()), digit(ahead.next())) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                rest = ahead;
            }
            (b'+', ..) => bytes.push(b' '),
            _ => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listings_are_read() {
        let text = "<A><Contents><Key>a%2Fb+c%26d.json</Key></Contents><Key>e</Key><Key>f";
        let keys: Vec<String> = tags(text, "Key").map(decoded).collect();
        assert_eq!(keys, ["a/b c&d.json", "e"]);
        assert_eq!(decoded("100%"), "100%");
        let of = |text: &'static str| address(Path::new(text)).map(|of| (of.bucket, of.key));
        assert_eq!(of("s3://traces/today/"), Some(("traces", "today/")));
        assert_eq!(of("s3://traces"), Some(("traces", "")));
        assert_eq!(of("traces/today"), None);
    }
}
