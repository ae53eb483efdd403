//! Rules for scripts: commands, interpreters, files and options.

use crate::category::Category::{Command, File};
use crate::rule::{CAUSE, GENERAL, REPORT, Rule};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "line-ends",
        category: Command,
        patterns: &[
            r"(?P<file>[^\s:]+): \S+\^M: bad interpreter",
            r"(?P<file>[^\s:]+): cannot execute: required file not found",
            r"env: [‘'](?P<file>[^’'\s]+)(?:\\r|\^M|\$'\\r')[’']: No such file or directory",
            r"(?P<file>[^\s:]+): (?:line )?\d+: \$'\\r': command not found",
        ],
        says: "A script has Windows line endings, so its interpreter is not found ({file}).",
        advice: "Save it with Unix line endings, and add `*.sh text eol=lf` to .gitattributes.",
        ..CAUSE
    },
    Rule {
        id: "interpreter-missing",
        category: Command,
        patterns: &[
            r"(?P<file>[^\s:]+): (?P<what>\S+): bad interpreter: No such file",
            r"env: [‘'](?P<file>)(?P<what>[^’']+)[’']: No such file or directory",
        ],
        says: "The interpreter of a script does not exist: {what}.",
        advice: "Install it on the machine that runs the step, or fix the #! line.",
        ..CAUSE
    },
    Rule {
        id: "shell-syntax",
        category: Command,
        patterns: &[
            r"(?P<what>Syntax error: .+)",
            r"(?P<what>syntax error near unexpected token .+)",
            r"(?P<what>unexpected EOF while looking for matching .+)",
            r"(?P<what>syntax error: unexpected end of file.*)",
            r"(?P<what>\[: .*(?:unexpected operator|too many arguments|binary operator expected))",
            r"(?P<what>Bad substitution)",
        ],
        says: "The script has a shell syntax error: {what}.",
        advice: "Fix the reported line (`sh -n FILE` checks it); run it with `bash FILE` if it needs bash.",
        ..CAUSE
    },
    Rule {
        id: "program-text",
        category: Command,
        patterns: &[
            r"\b[gmn]?awk: (?:cmd\. )?line:? ?\d+: .*(?P<what>syntax error.*|missing .+)",
            r"\bsed: -e expression #\d+, char \d+: (?P<what>.+)",
            r"\bjq: error: (?P<what>syntax error.*)",
            r"\b(?:grep|find|sort|date|xargs|cut): (?P<what>(?:[Ii]nvalid|[Uu]nmatched|missing|unknown predicate|you must specify).+)",
        ],
        says: "An inline program in the script has a syntax error: {what}.",
        advice: "Check quoting and shell expansion; the tool's version on this machine may differ.",
        ..CAUSE
    },
    Rule {
        id: "program-not-started",
        category: Command,
        patterns: &[r"(?:FileNotFoundError|PermissionError): \[Errno \d+\] .+: '(?P<name>[^']+)'"],
        with: &[r"\b_execute_child\b", r"^\s+(?:with )?(?:subprocess\.)?Popen\("],
        says: "The script cannot start a program: {name}.",
        advice: "Install it on the machine that runs the step, fix its name, or check PATH.",
        ..CAUSE
    },
    Rule {
        id: "make-target",
        category: Command,
        patterns: &[
            r"No rule to make target [`'‘](?P<name>[^'’]+)['’]",
            r"(?P<name>No targets specified and no makefile found)",
            r"just: .*[Jj]ustfile does not contain recipe `(?P<name>[^`]+)`",
            r"Task [`'\x22](?P<name>[^`'\x22]+)[`'\x22] (?:not found|does not exist)",
            r"Task '(?P<name>[^']+)' not found in root project",
        ],
        says: "The build has no target or file {name}.",
        advice: "Fix the name, or create the file first: a step starts with a fresh workspace.",
        ..CAUSE
    },
    Rule {
        id: "makefile-syntax",
        category: Command,
        patterns: &[
            r"(?P<file>[^\s:]+):\d+: \*\*\* (?P<what>missing separator|.*unterminated .+|commands commence before first target)",
        ],
        says: "The Makefile has a syntax error: {what} in {file}.",
        advice: "Start command lines with a tab, not with spaces.",
        ..CAUSE
    },
    Rule {
        id: "command-missing",
        category: Command,
        patterns: &[
            r"(?:^|[\s:])(?P<name>[\w./+@-]+): (?:command )?not found$",
            r"(?:^|[\s:])(?P<name>[\w./+@-]+): (?:No such file or directory|inaccessible or not found)$",
            r"(?:^|: )(?:line )?\d+: (?P<name>\.{0,2}/[^:]+): not found$",
            r"command not found: (?P<name>\S+)",
        ],
        exits: &[127],
        says: "Command not found: {name}.",
        advice: "Install it on the machine that runs the step, fix its name, or check PATH.",
        ..CAUSE
    },
    Rule {
        id: "command-not-found",
        category: Command,
        patterns: &[
            r"(?:^|[\s:])(?P<name>[\w./+@-]+): command not found$",
            r"(?:^|\s)\S*sh: (?:line )?(?:\d+: )?(?P<name>[\w./+@-]+): not found$",
            r"command not found: (?P<name>\S+)",
            r"make(?:\[\d+\])?: (?P<name>\S+): No such file or directory",
            r"exec: \x22(?P<name>[^\x22]+)\x22: executable file not found in \$PATH",
            r"spawn (?P<name>\S+) ENOENT",
            r"'(?P<name>[^']+)' is not recognized as an internal or external command",
        ],
        says: "Command not found: {name}.",
        advice: "Install it on the machine that runs the step, fix its name, or check PATH.",
        ..CAUSE
    },
    Rule {
        id: "file-missing",
        category: File,
        patterns: &[
            r"FileNotFoundError: .*?No such file or directory: (?P<file>.+)",
            r"ENOENT: no such file or directory, \w+ (?P<file>'.+')",
            r"(?:cannot (?:stat|open|access|find|remove)|can't (?:open|cd to|find)|could not open(?: file)?|couldn't open|failed to (?:open|read)) (?:file )?[‘'\x22`]?(?P<file>[^\s’'\x22`:,]+).*[Nn]o such file",
            r"(?P<file>\S+): (?:Cannot open: |open failed: )?No such file or directory",
            r"open (?P<file>[^\s:]+): no such file or directory",
            r"(?:can't|cannot) (?:cd|chdir|change directory) to (?P<file>\S+)",
            r"(?i)\b(?:path|file|directory|folder) [\x22'`‘]?(?P<file>[^\s\x22'`’]+)[\x22'`’]? (?:does not exist|doesn't exist|(?:was |is )?not found|is missing)",
            r"(?P<file>[Nn]o such file or directory.*|NoSuchFileException: .+|The system cannot find the (?:file|path) specified)",
            r"(?P<file>\S+) (?:does not exist|not found): no such file",
        ],
        says: "A file does not exist: {file}.",
        advice: "Fix the path. A step's workspace contains only the commit and the artifacts it declares.",
        ..GENERAL
    },
    Rule {
        id: "wrong-option",
        category: Command,
        patterns: &[
            r"(?P<what>(?:unrecognized|unknown|invalid|illegal) (?:command[- ]line )?(?:option|flag|argument|arguments|command|subcommand)s?\b:? ?.*)",
            r"error: (?P<what>(?:unexpected argument|unrecognized subcommand|the following (?:required )?arguments (?:were not provided|are required)).*)",
            r"(?P<what>\S+ is not a (?:\w+ )?command\. See .+)",
            r"(?P<what>no such (?:sub)?command:? .*)",
            r"(?P<what>flag provided but not defined: \S+)",
        ],
        says: "A command was called with an unknown option or argument: {what}.",
        advice: "Check its help; the version on this machine may differ from yours.",
        ..GENERAL
    },
    Rule {
        id: "archive-broken",
        category: File,
        patterns: &[
            r"(?P<what>gzip: \S+: (?:unexpected end of file|not in gzip format))",
            r"tar: (?P<what>This does not look like a tar archive|Unexpected EOF in archive|Error is not recoverable.*)",
            r"(?P<what>End-of-central-directory signature not found)",
            r"(?P<what>\S+: (?:FAILED|WARNING).*(?:checksum|CHECKSUM).*|checksum(?:s)? (?:mismatch|did not match|do not match).*|computed checksums? did NOT match)",
        ],
        says: "An archive is corrupt or has the wrong checksum: {what}.",
        advice: "Check the download: servers often return an error page instead of the file.",
        ..CAUSE
    },
    Rule {
        id: "arguments-too-long",
        category: Command,
        patterns: &[r"(?P<what>Argument list too long|\bE2BIG\b)"],
        says: "The argument list of a command is too long ({what}).",
        advice: "Use `xargs` or pass the list in a file.",
        ..CAUSE
    },
    Rule {
        id: "npm-report",
        category: Command,
        patterns: &[
            r"npm (?:ERR!|error) (?P<what>code ELIFECYCLE|Lifecycle script .+|command failed|errno \d+)",
            r"(?P<what>error Command failed with exit code \d+)",
            r"(?P<what>ELIFECYCLE.*Command failed.*)",
        ],
        says: "A package.json script failed: {what}.",
        advice: "Its output is above.",
        ..REPORT
    },
    Rule {
        id: "make-report",
        category: Command,
        patterns: &[r"make(?:\[\d+\])?: \*\*\* \[(?P<what>[^\]]+)\] (?:Error \d+|\w+)"],
        says: "A Makefile command failed: {what}.",
        advice: "Its output is above.",
        ..REPORT
    },
];
