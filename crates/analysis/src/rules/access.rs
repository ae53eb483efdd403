//! Rules for credentials: keys, tokens and cloud accounts.

use crate::category::Category::Credentials;
use crate::rule::{CAUSE, GENERAL, Rule};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "ssh-key",
        category: Credentials,
        patterns: &[
            r"Permission denied \((?P<what>[a-z,-]*(?:publickey|password)[a-z,-]*)\)",
            r"(?P<what>Load key .+: (?:invalid format|error in libcrypto))",
            r"(?P<what>UNPROTECTED PRIVATE KEY FILE)",
            r"(?P<what>Too many authentication failures)",
        ],
        says: "The SSH server rejects the key ({what}).",
        advice: "Pass the private key to the step as a file (`secret_files`), including its final newline, and authorize the public key on the server.",
        ..CAUSE
    },
    Rule {
        id: "ssh-host-key",
        category: Credentials,
        patterns: &[
            r"(?P<what>Host key verification failed)",
            r"(?P<what>REMOTE HOST IDENTIFICATION HAS CHANGED)",
            r"(?P<what>No \S+ host key is known for \S+)",
        ],
        says: "The SSH host key is not trusted ({what}).",
        advice: "Pin the host key in known_hosts. If it changed, find out why before you accept the new one.",
        ..CAUSE
    },
    Rule {
        id: "npm-credentials",
        category: Credentials,
        patterns: &[
            r"npm (?:ERR!|error) code (?P<what>E401|E403|ENEEDAUTH|EOTP)",
            r"(?P<what>ERR_PNPM_FETCH_40[13])",
        ],
        says: "The npm registry rejects the credentials ({what}).",
        advice: "Pass a registry token to the step as a secret and reference it in .npmrc.",
        ..CAUSE
    },
    Rule {
        id: "cloud-credentials",
        category: Credentials,
        patterns: &[
            r"(?P<what>Unable to locate credentials|NoCredentialsError.*)",
            r"\b(?P<what>ExpiredToken(?:Exception)?|InvalidClientTokenId|SignatureDoesNotMatch|UnrecognizedClientException|InvalidAccessKeyId|AuthFailure)\b",
            r"An error occurred \((?P<what>AccessDenied(?:Exception)?|UnauthorizedOperation)\)",
            r"(?P<what>Could not automatically determine credentials|Your default credentials were not found|could not find default credentials)",
            r"(?P<what>AADSTS\d+)",
            r"(?P<what>Please run 'az login')",
            r"(?P<what>PERMISSION_DENIED: .+|The caller does not have permission)",
        ],
        says: "The cloud provider rejects the credentials: {what}.",
        advice: "Renew the step's credentials, or grant their role the missing permission.",
        ..CAUSE
    },
    Rule {
        id: "http-unauthorized",
        category: Credentials,
        patterns: &[
            r"returned error: (?P<what>401|403)\b",
            r"(?P<what>\b(?:401|403):? (?:Client Error: )?(?:Unauthorized|Forbidden|FORBIDDEN|UNAUTHORIZED))",
            r"(?i)(?:status(?: code)?:?|HTTP(?:/[\d.]+)?\x22?|HTTP Error|ERROR) (?P<what>401|403)\b",
            r"(?i)(?P<what>\b(?:bad credentials|invalid (?:api key|token|credentials)|token (?:has )?expired|authentication (?:failed|required)|access denied|unauthorized)\b)",
            r"(?P<what>Username/Password Authentication Failed)",
        ],
        says: "A server rejects the credentials ({what}).",
        advice: "Check that the secret is set in this stage, has not expired and has the required permission.",
        ..GENERAL
    },
];
