//! Keeps the webhook's certificate: in a Secret for all operators, and its authority where the API server looks.

use super::{Journal, Settings, clock, metrics::Metrics};
use crate::{
    admission::{Certificate, names},
    manifests::{NAME, SECRET, SERVICE},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use k8s_openapi::{
    ByteString,
    api::{admissionregistration::v1::MutatingWebhookConfiguration, core::v1::Secret},
};
use kube::{
    Api, Client,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::json;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::{sync::watch, time::sleep};
use tokio_rustls::rustls::ServerConfig;

/// How often the Secret is looked at, at most: another operator may have renewed it.
const LOOK: Duration = Duration::from_mins(1);

/// After a failure.
const RETRY: Duration = Duration::from_secs(2);

pub(super) struct Keeper {
    secrets: Api<Secret>,
    webhooks: Api<MutatingWebhookConfiguration>,
    namespace: String,
    names: Vec<String>,
    good_for: Duration,
    renew: watch::Sender<Option<Arc<ServerConfig>>>,
    metrics: Arc<Metrics>,
    journal: Arc<Journal>,
    shown: String,
}

/// A certificate as it is kept, with the authorities that the API server is to know.
struct Kept {
    secret: Secret,
    certificate: Certificate,
    authorities: String,
}

impl Keeper {
    pub(super) fn new(
        client: Client,
        settings: &Settings,
        renew: watch::Sender<Option<Arc<ServerConfig>>>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            secrets: Api::namespaced(client.clone(), &settings.namespace),
            webhooks: Api::all(client),
            namespace: settings.namespace.clone(),
            names: names(SERVICE, &settings.namespace, &settings.webhook_names),
            good_for: settings.certificate,
            renew,
            metrics,
            journal: Arc::clone(&settings.journal),
            shown: String::new(),
        }
    }

    /// Keeps it for as long as the operator runs.
    pub(super) async fn keep(mut self) {
        loop {
            let wait = match self.look().await {
                Ok(()) => LOOK.min(self.good_for / 12),
                Err(why) => {
                    self.journal
                        .say("the webhook's certificate cannot be kept", &why);
                    RETRY
                }
            };
            sleep(wait.max(Duration::from_millis(200))).await;
        }
    }

    /// The API server is told of a new authority before its certificate is shown.
    async fn look(&mut self) -> Result<(), String> {
        let now = u64::try_from(clock::now().as_second()).unwrap_or_default();
        let kept = match self.read().await? {
            // One that lasts otherwise than is asked for now is made anew.
            Some(kept)
                if !kept.certificate.is_due(now)
                    && kept.certificate.good_for == self.good_for() =>
            {
                kept
            }
            old => self.renewed(old, now).await?,
        };
        self.tell(&kept.authorities).await?;
        if kept.certificate.chain != self.shown {
            let config = kept
                .certificate
                .config()
                .map_err(|error| error.to_string())?;
            self.renew.send_replace(Some(config));
            self.metrics.certificate(kept.certificate.ends);
            self.shown = kept.certificate.chain;
        }
        Ok(())
    }

    fn good_for(&self) -> u64 {
        self.good_for.as_secs().max(1)
    }

    async fn read(&self) -> Result<Option<Kept>, String> {
        let secret = self
            .secrets
            .get_opt(SECRET)
            .await
            .map_err(|error| error.to_string())?;
        Ok(secret.and_then(|secret| {
            let data = secret.data.clone().unwrap_or_default();
            let text = |key: &str| String::from_utf8(data.get(key)?.0.clone()).ok();
            let number = |key: &str| text(key)?.parse().ok();
            let certificate = Certificate {
                chain: text("tls.crt")?,
                key: text("tls.key")?,
                authority: text("authority.crt")?,
                ends: number("ends")?,
                good_for: number("good-for")?,
            };
            let authorities = text("ca.crt")?;
            // One that cannot be shown, or is for other names, is made anew.
            let good = certificate.config().is_ok() && text("names")? == self.names.join(",");
            good.then_some(Kept {
                secret,
                certificate,
                authorities,
            })
        }))
    }

    /// A new certificate, kept if nobody was faster; else that of who was.
    async fn renewed(&self, old: Option<Kept>, now: u64) -> Result<Kept, String> {
        let new = Certificate::new(&self.names, now, self.good_for())
            .map_err(|error| error.to_string())?;
        // What is shown elsewhere until it sees this one stays good.
        let before = old
            .as_ref()
            .map_or("", |kept| kept.certificate.authority.as_str());
        let authorities = format!("{}{before}", new.authority);
        let data = [
            ("tls.crt", new.chain.clone()),
            ("tls.key", new.key.clone()),
            ("authority.crt", new.authority.clone()),
            ("ca.crt", authorities.clone()),
            ("ends", new.ends.to_string()),
            ("good-for", new.good_for.to_string()),
            ("names", self.names.join(",")),
        ];
        let data: BTreeMap<String, ByteString> = data
            .into_iter()
            .map(|(key, text)| (key.to_owned(), ByteString(text.into_bytes())))
            .collect();
        let known = match old {
            Some(kept) => Some(kept.secret),
            None => self
                .secrets
                .get_opt(SECRET)
                .await
                .map_err(|error| error.to_string())?,
        };
        let written = if let Some(mut secret) = known {
            secret.data = Some(data);
            secret.metadata.managed_fields = None;
            self.secrets
                .replace(SECRET, &PostParams::default(), &secret)
                .await
        } else {
            let secret = Secret {
                metadata: ObjectMeta {
                    name: Some(SECRET.into()),
                    namespace: Some(self.namespace.clone()),
                    ..ObjectMeta::default()
                },
                type_: Some("Opaque".into()),
                data: Some(data),
                ..Secret::default()
            };
            self.secrets.create(&PostParams::default(), &secret).await
        };
        match written {
            Ok(secret) => Ok(Kept {
                secret,
                certificate: new,
                authorities,
            }),
            Err(kube::Error::Api(error)) if error.code == 409 => {
                let kept = self.read().await?;
                kept.ok_or_else(|| "another operator is making the certificate".into())
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// Puts the authorities where the API server looks, if they are not there.
    async fn tell(&self, authorities: &str) -> Result<(), String> {
        let there = self
            .webhooks
            .get_opt(NAME)
            .await
            .map_err(|error| error.to_string())?;
        let hooks = there.and_then(|config| config.webhooks).unwrap_or_default();
        let right = |bundle: &Option<ByteString>| {
            bundle
                .as_ref()
                .is_some_and(|bundle| bundle.0 == authorities.as_bytes())
        };
        if hooks.is_empty() {
            return Err("the webhook is not installed".into());
        }
        if hooks
            .iter()
            .all(|hook| right(&hook.client_config.ca_bundle))
        {
            return Ok(());
        }
        let bundle = STANDARD.encode(authorities);
        let hooks: Vec<_> = hooks
            .iter()
            .map(|hook| json!({"name": hook.name, "clientConfig": {"caBundle": bundle}}))
            .collect();
        let patch = Patch::Strategic(json!({"webhooks": hooks}));
        let params = PatchParams {
            field_manager: Some(NAME.into()),
            ..PatchParams::default()
        };
        self.webhooks
            .patch(NAME, &params, &patch)
            .await
            .map(drop)
            .map_err(|error| error.to_string())
    }
}
