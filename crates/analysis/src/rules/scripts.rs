//! What a script calls: commands, interpreters, files, options.

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
        says: "A script has the line ends of Windows, so its interpreter is not found ({file}).",
        advice: "Save it with line ends of Unix, and add `*.sh text eol=lf` to .gitattributes.",
        ..CAUSE
    },
    Rule {
        id: "interpreter-missing",
        category: Command,
        patterns: &[
            r"(?P<file>[^\s:]+): (?P<what>\S+): bad interpreter: No such file",
            r"env: [‘'](?P<file>)(?P<what>[^’']+)[’']: No such file or directory",
        ],
        says: "The program that a script's first line names is not there: {what}.",
        advice: "Install it on the machine that runs the step, or correct the #! line.",
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
        says: "The shell cannot read the script: {what}.",
        advice: "Correct the line named (`sh -n FILE` checks it); write `bash FILE` if it needs bash.",
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
        says: "A small program in the script cannot be read: {what}.",
        advice: "Look at quotes and at what the shell fills in; the tool's version on this machine may be another one.",
        ..CAUSE
    },
    Rule {
        id: "program-not-started",
        category: Command,
        patterns: &[r"(?:FileNotFoundError|PermissionError): \[Errno \d+\] .+: '(?P<name>[^']+)'"],
        with: &[r"\b_execute_child\b", r"^\s+(?:with )?(?:subprocess\.)?Popen\("],
        says: "A program that the script calls cannot be started: {name}.",
        advice: "Install it on the machine that runs the step, correct its name, or look at PATH.",
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
        advice: "Correct the name, or make the file before: a step starts with a fresh workspace.",
        ..CAUSE
    },
    Rule {
        id: "makefile-syntax",
        category: Command,
        patterns: &[
            r"(?P<file>[^\s:]+):\d+: \*\*\* (?P<what>missing separator|.*unterminated .+|commands commence before first target)",
        ],
        says: "The Makefile cannot be read: {what} in {file}.",
        advice: "Begin command lines with a tab, not with spaces.",
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
        says: "The command {name} is not there.",
        advice: "Install it on the machine that runs the step, correct its name, or look at PATH.",
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
        says: "The command {name} is not there.",
        advice: "Install it on the machine that runs the step, correct its name, or look at PATH.",
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
        says: "A file is not there: {file}.",
        advice: "Correct the path; a step begins with the commit and the artifacts it names, and nothing else.",
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
        says: "A command does not know what it was given: {what}.",
        advice: "Look at its help; the version on this machine may be another one than yours.",
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
        says: "A file is not what it should be: {what}.",
        advice: "Look at where it came from: a page with an error is often saved in its place.",
        ..CAUSE
    },
    Rule {
        id: "arguments-too-long",
        category: Command,
        patterns: &[r"(?P<what>Argument list too long|\bE2BIG\b)"],
        says: "A command was given more than the system passes on ({what}).",
        advice: "Use `xargs` or a file with the list.",
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
        says: "A script of package.json failed: {what}.",
        advice: "The output of the script is above.",
        ..REPORT
    },
    Rule {
        id: "make-report",
        category: Command,
        patterns: &[r"make(?:\[\d+\])?: \*\*\* \[(?P<what>[^\]]+)\] (?:Error \d+|\w+)"],
        says: "A command of the Makefile failed: {what}.",
        advice: "The output of the command is above.",
        ..REPORT
    },
];
