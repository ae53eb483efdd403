//! Sends email through the operator's SMTP server.
//!
//! The server is set in the configuration, by the operator and not by users, so it may be in a private network, and
//! connections to it do not go through `egress`.

use std::time::Duration;

use berth_core::name::Email;
use berth_engine::credential::RedactedString;
use lettre::message::header::ContentType;
use lettre::message::{Mailbox, Message};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::{Address, SmtpTransport, Transport as _};
use tokio::sync::oneshot;

use crate::error::AppError;

/// Timeout of each command to the SMTP server.
const COMMAND_MAX: Duration = Duration::from_secs(15);
/// Maximum number of characters in a subject. Longer ones are truncated.
const SUBJECT_CHARS_MAX: usize = 150;

/// The server that emails are sent through.
#[derive(Debug, Clone)]
pub struct SmtpConfig {
    pub host: String,
    pub port: u16,
    pub tls: SmtpTls,
    /// User name and password. `None`: without authentication.
    pub login: Option<(String, RedactedString)>,
    /// The sender of all emails.
    pub from: MailSender,
    /// Whether emails contain links with which their recipients can act.
    pub action_links: bool,
}

/// How the connection to the SMTP server is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SmtpTls {
    /// TLS from the first byte.
    Implicit,
    /// The connection is refused if the server does not offer STARTTLS.
    Starttls,
    None,
}

/// An address such as `Berth <berth@acme.test>`.
#[derive(Debug, Clone)]
pub struct MailSender(Mailbox);

impl std::str::FromStr for MailSender {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.parse().map(Self);
        parsed.map_err(|_| "must be an address such as \"Berth <berth@acme.test>\"".to_owned())
    }
}

/// An email in plain text.
#[derive(Debug, Clone)]
pub(crate) struct MailMessage {
    pub(crate) to: Email,
    pub(crate) subject: String,
    pub(crate) text: String,
    /// Makes the message id, so that a message that is sent again has the same one.
    pub(crate) id: String,
}

impl SmtpConfig {
    /// Sends an email on a separate thread. A blocking task of the runtime would delay shutdown if the server hangs.
    /// The inner error says why the email was not sent.
    pub(crate) async fn send(&self, mail: MailMessage) -> Result<Result<(), String>, AppError> {
        let message = match self.compose(mail) {
            Ok(message) => message,
            Err(why) => return Ok(Err(why)),
        };
        let transport = match self.transport() {
            Ok(transport) => transport,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let (tell, answer) = oneshot::channel();
        let started = std::thread::Builder::new().name("mail".into()).spawn(move || {
            // This fails only if the server is stopping and the receiving task no longer exists.
            let _ = tell.send(transport.send(&message).map(drop).map_err(|error| error.to_string()));
        });
        started.map_err(|error| AppError::bug(format!("cannot start a thread: {error}")))?;
        answer.await.map_err(|_| AppError::bug("sending an email broke"))
    }

    fn transport(&self) -> Result<SmtpTransport, lettre::transport::smtp::Error> {
        let tls = match self.tls {
            SmtpTls::Implicit => Tls::Wrapper(TlsParameters::new_rustls(self.host.clone())?),
            SmtpTls::Starttls => Tls::Required(TlsParameters::new_rustls(self.host.clone())?),
            SmtpTls::None => Tls::None,
        };
        let builder = SmtpTransport::builder_dangerous(self.host.clone())
            .port(self.port)
            .tls(tls)
            .hello_name(ClientId::Domain(self.sender_domain().to_owned()))
            .timeout(Some(COMMAND_MAX));
        let builder = match &self.login {
            Some((user, password)) => {
                builder.credentials(Credentials::new(user.clone(), password.reveal().to_owned()))
            }
            None => builder,
        };
        Ok(builder.build())
    }

    fn compose(&self, mail: MailMessage) -> Result<Message, String> {
        let to: Address = mail.to.to_string().parse().map_err(|_| "the address cannot be used".to_owned())?;
        let mut subject: String =
            mail.subject.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        if subject.chars().count() > SUBJECT_CHARS_MAX {
            subject = subject.chars().take(SUBJECT_CHARS_MAX).chain(['…']).collect();
        }
        let message = Message::builder()
            .from(self.from.0.clone())
            .to(Mailbox::new(None, to))
            .subject(subject)
            .message_id(Some(format!("<{}@{}>", mail.id, self.sender_domain())))
            .header(ContentType::TEXT_PLAIN)
            .body(mail.text);
        message.map_err(|error| format!("the email cannot be composed: {error}"))
    }

    fn sender_domain(&self) -> &str {
        self.from.0.email.domain()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> SmtpConfig {
        SmtpConfig {
            host: "127.0.0.1".into(),
            port: 25,
            tls: SmtpTls::None,
            login: None,
            from: "Berth <berth@acme.test>".parse().unwrap(),
            action_links: true,
        }
    }

    #[test]
    fn mail_subject_cannot_inject_headers() {
        let mail = MailMessage {
            to: Email::parse("ada@acme.test").unwrap(),
            subject: format!("a\r\nBcc: eve@evil.test\r\n\r\n{}", "ü".repeat(300)),
            text: "text".into(),
            id: "ntf_1".into(),
        };
        let made = String::from_utf8(config().compose(mail).unwrap().formatted()).unwrap();
        let (head, body) = made.split_once("\r\n\r\n").unwrap();
        assert!(!head.lines().any(|line| line.to_lowercase().starts_with("bcc")), "{head}");
        assert!(head.contains("Message-ID: <ntf_1@acme.test>"), "{head}");
        assert_eq!(body.trim_end(), "text");
    }

    #[test]
    fn sender_must_be_an_address() {
        assert!("berth@acme.test".parse::<MailSender>().is_ok());
        assert!("Berth".parse::<MailSender>().is_err());
    }
}
