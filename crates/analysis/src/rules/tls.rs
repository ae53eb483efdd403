//! Rules for TLS certificates and handshakes.

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
        says: "A certificate has expired or is not yet valid: {what}.",
        advice: "Renew it on the server, and check this machine's clock.",
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
        says: "The certificate is for a different host name: {what}.",
        advice: "Use a name that the certificate covers, or issue one for this name.",
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
        says: "The certificate is not trusted by this machine: {what}.",
        advice: "Install the issuer's certificate on the machine that runs the step; do not disable verification.",
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
        says: "The TLS handshake failed: {what}.",
        advice: "Check that the port uses TLS, and which versions it supports.",
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
        advice: "Check that certificate and key match and are complete PEM files: newlines are easily lost in a secret.",
        ..CAUSE
    },
];
