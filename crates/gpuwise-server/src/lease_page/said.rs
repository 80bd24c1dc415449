//! The address of a page as a lease says it.

use std::net::IpAddr;

/// Letters of an address at most.
const LONGEST: usize = 500;

/// The first port that does not belong to the system.
const FIRST: u16 = 1024;

/// Where a page is, as a lease says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageSaid {
    /// A path, at the port that the lease was given.
    Path(String),
    /// An address of one of its nodes.
    Url {
        url: String,
        /// A name, or an IP address as it is written plainly.
        host: String,
        port: u16,
    },
}

/// Why an address cannot be one of a page.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PageSaidError {
    #[error(
        "expected a path such as /metrics, at the port that the lease is given, or an address of its node such as \
         http://NODE:8000/metrics"
    )]
    Form,
    #[error("write the address as four decimal numbers, or as IPv6 in brackets")]
    Number,
    #[error(
        "{0} is no address of a node; say a path such as /metrics for what runs where the broker does"
    )]
    NoNode(String),
    #[error("port {0} is one of the system's: expected {FIRST} or more")]
    Port(u16),
}

impl PageSaid {
    /// # Errors
    /// When it is none.
    pub fn read(text: &str) -> Result<Self, PageSaidError> {
        let graphic = text.bytes().all(|byte| byte.is_ascii_graphic());
        if !graphic || text.len() > LONGEST {
            return Err(PageSaidError::Form);
        }
        if text.starts_with('/') {
            let path = !text.starts_with("//");
            return path
                .then(|| Self::Path(text.to_owned()))
                .ok_or(PageSaidError::Form);
        }
        let uri: axum::http::Uri = text.parse().map_err(|_| PageSaidError::Form)?;
        let usual = match uri.scheme_str() {
            Some("http") => 80,
            Some("https") => 443,
            _ => return Err(PageSaidError::Form),
        };
        let authority = uri.authority().ok_or(PageSaidError::Form)?;
        if authority.as_str().contains('@') {
            return Err(PageSaidError::Form);
        }
        let rest = authority
            .as_str()
            .strip_prefix(authority.host())
            .unwrap_or_default();
        let port = match rest.strip_prefix(':') {
            Some(port) => port.parse().map_err(|_| PageSaidError::Form)?,
            None => usual,
        };
        let host = host(authority.host())?;
        if port < FIRST {
            return Err(PageSaidError::Port(port));
        }
        let url = text.to_owned();
        Ok(Self::Url { url, host, port })
    }
}

/// A host as it is written plainly.
fn host(text: &str) -> Result<String, PageSaidError> {
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    if let Ok(address) = bare.unwrap_or(text).parse::<IpAddr>() {
        let address = plain(address);
        if cannot_be_a_node(address) {
            return Err(PageSaidError::NoNode(address.to_string()));
        }
        return Ok(address.to_string());
    }
    let letters = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let name = text.trim_end_matches('.').to_ascii_lowercase();
    let last = name.rsplit('.').next().unwrap_or_default();
    if bare.is_some() || last.is_empty() || !text.bytes().all(letters) {
        return Err(PageSaidError::Form);
    }
    // What old functions of the system take for a number: 2130706433, 0x7f.1, 0177.0.0.1.
    let digits = last.bytes().all(|byte| byte.is_ascii_digit());
    if digits
        || last
            .strip_prefix("0x")
            .is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()))
    {
        return Err(PageSaidError::Number);
    }
    if last == "localhost" {
        return Err(PageSaidError::NoNode(name));
    }
    Ok(name)
}

/// An address of IPv4 that is written as one of IPv6 is one of IPv4.
pub(super) fn plain(address: IpAddr) -> IpAddr {
    let IpAddr::V6(six) = address.to_canonical() else {
        return address.to_canonical();
    };
    match six.segments() {
        // In whole, and behind the prefix by which IPv6 alone reaches IPv4 (RFC 6052).
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => four(high, low),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => four(high, low),
        _ => address,
    }
}

fn four(high: u16, low: u16) -> IpAddr {
    let number = u32::from(high) << 16 | u32::from(low);
    IpAddr::V4(number.into())
}

/// Loopback, link-local and such, where clouds tell machines their secrets.
pub(super) fn cannot_be_a_node(address: IpAddr) -> bool {
    match plain(address) {
        IpAddr::V4(four) => {
            four.is_loopback()
                || four.is_link_local()
                || four.is_multicast()
                || four.is_broadcast()
                || four.octets()[0] == 0
        }
        IpAddr::V6(six) => {
            six.is_loopback()
                || six.is_unspecified()
                || six.is_multicast()
                || six.is_unicast_link_local()
        }
    }
}
