//! Rules for databases: connections, credentials and statements.

use crate::category::Category::{Credentials, Database};
use crate::rule::{CAUSE, Rule};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "database-unreachable",
        category: Database,
        patterns: &[
            r"connection to server (?:at|on socket) (?P<what>.+?) failed: (?:Connection refused|No such file|timeout|Connection timed out)",
            r"could not (?:connect to server|translate host name) ?:?(?P<what>.*)",
            r"Can't connect to (?:local )?(?:MySQL|MariaDB|server) ?(?:server )?(?P<what>.*)",
            r"(?P<what>MongoServerSelectionError|MongoNetworkError|SequelizeConnectionRefusedError).*",
            r"Could not connect to Redis at (?P<what>\S+)",
            r"(?P<what>P1001): Can't reach database server",
        ],
        says: "The database cannot be reached: {what}.",
        advice: "Check that it is running and reachable from this machine, then check host and port.",
        ..CAUSE
    },
    Rule {
        id: "database-credentials",
        category: Credentials,
        patterns: &[
            r"(?P<what>password authentication failed for user \x22[^\x22]+\x22)",
            r"(?P<what>Access denied for user '[^']*'@'[^']*')",
            r"(?P<what>no pg_hba\.conf entry for .+)",
            r"(?P<what>role \x22[^\x22]+\x22 does not exist)",
            r"(?P<what>NOAUTH Authentication required|WRONGPASS .+)",
            r"(?P<what>fe_sendauth: no password supplied)",
        ],
        says: "The database rejects the login: {what}.",
        advice: "Check user and password (a secret), or the server's access rules for this machine.",
        ..CAUSE
    },
    Rule {
        id: "database-missing",
        category: Database,
        patterns: &[
            r"(?P<what>database \x22[^\x22]+\x22 does not exist)",
            r"(?P<what>Unknown database '[^']+')",
        ],
        says: "The database does not exist: {what}.",
        advice: "Create it first, or fix its name.",
        ..CAUSE
    },
    Rule {
        id: "table-missing",
        category: Database,
        patterns: &[
            r"(?P<what>(?:relation|table|column|schema|type|function) \x22?[\w.\x22]+\x22?(?:\([^)]*\))?(?: of relation \x22[^\x22]+\x22)? does not exist)",
            r"(?P<what>no such (?:table|column|function): \S+)",
            r"(?P<what>Table '[^']+' doesn't exist)",
            r"(?P<what>Unknown column '[^']+')",
            r"(?P<what>ORA-00942: .+)",
        ],
        after: 1,
        says: "A statement refers to something that does not exist in the database: {what}.",
        advice: "Run the migrations first, in order, and check that this is the right database.",
        ..CAUSE
    },
    Rule {
        id: "constraint",
        category: Database,
        patterns: &[
            r"(?P<what>duplicate key value violates unique constraint \x22[^\x22]+\x22)",
            r"(?P<what>(?:UNIQUE|NOT NULL|FOREIGN KEY|CHECK) constraint failed(?:: \S+)?)",
            r"(?P<what>Duplicate entry '[^']+' for key)",
            r"(?P<what>violates (?:not-null|foreign key|check) constraint)",
            r"(?P<what>Cannot add or update a child row: a foreign key constraint fails)",
        ],
        after: 1,
        says: "A constraint of the database was violated: {what}.",
        advice: "Clean up the conflicting rows, or make the statement idempotent.",
        ..CAUSE
    },
    Rule {
        id: "already-there",
        category: Database,
        patterns: &[
            r"(?P<what>(?:relation|table|column|type|index|database|role) \x22?[\w.]+\x22? already exists)",
            r"(?P<what>duplicate column name: \S+)",
            r"(?P<what>Table '[^']+' already exists)",
        ],
        says: "A migration creates something that already exists: {what}.",
        advice: "Mark it as applied, or use IF NOT EXISTS.",
        ..CAUSE
    },
    Rule {
        id: "sql-syntax",
        category: Database,
        patterns: &[
            r"ERROR:\s+(?P<what>syntax error at or near .+)",
            r"(?P<what>syntax error at or near \x22.+) \(SQLSTATE",
            r"(?:psycopg\S*|sqlalchemy\S*|PG::)\S*SyntaxError\S*:? +(?P<what>syntax error .+)",
            r"(?P<what>You have an error in your SQL syntax)",
            r"(?P<what>near \x22[^\x22]*\x22: syntax error)",
            r"ERROR:\s+(?P<what>syntax error at end of input)",
        ],
        after: 2,
        says: "SQL syntax error: {what}.",
        advice: "Fix the statement at the reported position.",
        ..CAUSE
    },
    Rule {
        id: "database-locked",
        category: Database,
        patterns: &[
            r"(?P<what>deadlock detected|Deadlock found when trying to get lock)",
            r"(?P<what>canceling statement due to (?:lock|statement) timeout)",
            r"(?P<what>Lock wait timeout exceeded)",
            r"(?P<what>database is locked)",
        ],
        says: "The statement is blocked by a lock: {what}.",
        advice: "Find the session that holds the lock; keep migrations short, and retry.",
        ..CAUSE
    },
    Rule {
        id: "database-full",
        category: Database,
        patterns: &[
            r"(?P<what>(?:sorry, )?too many clients already)",
            r"(?P<what>Too many connections)",
            r"(?P<what>remaining connection slots are reserved)",
            r"(?P<what>the database system is (?:starting up|shutting down|in recovery mode))",
        ],
        says: "The database does not accept connections: {what}.",
        advice: "Wait until it is ready, or close connections and use a pool.",
        ..CAUSE
    },
    Rule {
        id: "migration-history",
        category: Database,
        patterns: &[
            r"(?P<what>(?:Migration|Validate failed: Migration).* checksum mismatch.*)",
            r"(?P<what>Can't locate revision identified by '[^']+')",
            r"(?P<what>migration \S+ was previously applied but (?:is missing|has been modified).*)",
            r"(?P<what>Multiple head revisions are present)",
        ],
        says: "The migrations differ from those applied to the database: {what}.",
        advice: "Never edit an applied migration; add a new one.",
        ..CAUSE
    },
    Rule {
        id: "database-file",
        category: Database,
        patterns: &[
            r"(?P<what>file is not a database|file is encrypted or is not a database|database disk image is malformed)",
            r"(?P<what>unable to open database file|attempt to write a readonly database)",
            r"(?P<what>invalid page in block \d+.*|could not read block \d+.*)",
        ],
        says: "The database file cannot be used: {what}.",
        advice: "Check that it is the right file, complete and writable; restore it from a backup if it is corrupt.",
        ..CAUSE
    },
];
