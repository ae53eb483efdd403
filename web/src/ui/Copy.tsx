import { ActionIcon, Box, Button, Code, CopyButton } from "@mantine/core";
import { IconCheck, IconCopy } from "@tabler/icons-react";

/** Copies with one press, and says so. */
export function CopyIcon({ value, label }: { value: string; label: string }) {
  return (
    <CopyButton value={value}>
      {({ copied, copy }) => (
        <ActionIcon
          variant="subtle"
          color="gray"
          onClick={copy}
          aria-label={copied ? "Copied" : label}
          title={copied ? "Copied" : label}
        >
          {copied ? <IconCheck size={16} /> : <IconCopy size={16} />}
        </ActionIcon>
      )}
    </CopyButton>
  );
}

export function CopyText({ value, label }: { value: string; label: string }) {
  return (
    <CopyButton value={value}>
      {({ copied, copy }) => (
        <Button onClick={copy} leftSection={copied ? <IconCheck size={16} /> : <IconCopy size={16} />}>
          {copied ? "Copied" : label}
        </Button>
      )}
    </CopyButton>
  );
}

/** A command or a piece of YAML that can be taken along as it stands. */
export function Snippet({ text, label }: { text: string; label: string }) {
  return (
    <Box pos="relative" ta="left" pr={40} className="sunken" bdrs="sm">
      <Code block tabIndex={0} aria-label={label} fz="sm" style={{ overflowX: "auto" }}>
        {text}
      </Code>
      <Box pos="absolute" top={8} right={8}>
        <CopyIcon value={text} label="Copy" />
      </Box>
    </Box>
  );
}
