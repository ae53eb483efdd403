//! Who are you? Keys, tokens, clouds.

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
        says: "The ssh server does not accept our key ({what}).",
        advice: "Give the step the private key as a file (`secret_files`), with its last line end, and add the public one there.",
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
        says: "ssh does not know the server ({what}).",
        advice: "Pin its key in known_hosts; if it changed, ask why before you accept the new one.",
        ..CAUSE
    },
    Rule {
        id: "npm-credentials",
        category: Credentials,
        patterns: &[
            r"npm (?:ERR!|error) code (?P<what>E401|E403|ENEEDAUTH|EOTP)",
            r"(?P<what>ERR_PNPM_FETCH_40[13])",
        ],
        says: "The npm registry does not accept who we are ({what}).",
        advice: "Give the step a token for the registry as a secret, and name it in .npmrc.",
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
        says: "The cloud does not accept who we are: {what}.",
        advice: "Renew the credentials that the step gets, and look which action its role lacks.",
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
        says: "A server does not accept who we are ({what}).",
        advice: "Look whether the secret is set in this stage, still valid, and has the right that is needed.",
        ..GENERAL
    },
];
