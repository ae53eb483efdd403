//! Certificates and handshakes.

use crate::category::Category::Tls;
use crate::rule::{CAUSE, Rule};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "certificate-expired",
        category: Tls,
        patterns: &[
            r"(?i)(?P<what>certificate (?:has expired|is not yet valid|expired)|CERT_HAS_EXPIRED|CertificateExpired)",
            r"(?P<what>x509: certificate has expired or is not yet valid)",
            r"(?P<what>SEC_ERROR_EXPIRED_CERTIFICATE)",
        ],
        says: "A certificate is out of its time: {what}.",
        advice: "Renew it on the server; also look at this machine's clock.",
        ..CAUSE
    },
    Rule {
        id: "certificate-name",
        category: Tls,
        patterns: &[
            r"(?P<what>no alternative certificate subject name matches target host name '[^']+')",
            r"(?P<what>Hostname mismatch, certificate is not valid for '[^']+')",
            r"(?P<what>x509: certificate is valid for .+, not \S+)",
            r"(?P<what>ERR_TLS_CERT_ALTNAME_INVALID)",
            r"(?P<what>Hostname/IP does not match certificate's altnames)",
            r"(?P<what>certificate not valid for name)",
        ],
        says: "The certificate was made for another name: {what}.",
        advice: "Use the name that the certificate has, or have one made for this name.",
        ..CAUSE
    },
    Rule {
        id: "certificate-unknown",
        category: Tls,
        patterns: &[
            r"(?i)(?P<what>self[- ]signed certificate(?: in certificate chain)?)",
            r"(?P<what>unable to get (?:local )?issuer certificate)",
            r"(?P<what>UNABLE_TO_VERIFY_LEAF_SIGNATURE|DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN)",
            r"(?P<what>x509: certificate signed by unknown authority)",
            r"(?P<what>PKIX path building failed)",
            r"(?P<what>[Tt]he certificate of .+ (?:is not trusted|doesn't have a known issuer))",
            r"(?P<what>cannot verify \S+ certificate)",
            r"(?P<what>invalid peer certificate: UnknownIssuer)",
            r"(?P<what>server certificate verification failed)",
            r"(?P<what>CERTIFICATE_VERIFY_FAILED)",
            r"(?P<what>certificate verify failed)",
        ],
        says: "Nobody that this machine trusts vouches for the certificate: {what}.",
        advice: "Install the issuer's certificate on the machine that runs the step; do not switch the check off.",
        ..CAUSE
    },
    Rule {
        id: "tls-handshake",
        category: Tls,
        patterns: &[
            r"(?i)(?P<what>wrong version number|WRONG_VERSION_NUMBER)",
            r"(?i)(?P<what>(?:ssl|tls)\S* .*(?:handshake failure|unsupported protocol|no shared cipher|unexpected eof while reading))",
            r"(?P<what>ERR_SSL_\w+|EPROTO)",
            r"(?P<what>gnutls_handshake\(\) failed.*)",
            r"(?P<what>SSL_ERROR_SYSCALL)",
            r"(?P<what>http: server gave HTTP response to HTTPS client)",
        ],
        says: "Both sides find no common language: {what}.",
        advice: "Look whether the port speaks TLS at all, and which versions it takes.",
        ..CAUSE
    },
    Rule {
        id: "key-file",
        category: Tls,
        patterns: &[
            r"(?P<what>unable to load (?:certificate|private key|Private Key|client cert).*)",
            r"(?P<what>Could not (?:read|find) (?:private key|certificate|any \S+).*)",
            r"(?P<what>x509 certificate routines:.*key values mismatch)",
            r"(?P<what>tls: private key does not match public key)",
            r"(?P<what>failed to find any PEM data.*)",
        ],
        says: "A certificate or key file cannot be used: {what}.",
        advice: "Look whether both belong together and are whole PEM files: a secret loses its line ends easily.",
        ..CAUSE
    },
];
