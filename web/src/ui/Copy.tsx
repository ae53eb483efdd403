import { ActionIcon, Box, Button, Code, CopyButton } from "@mantine/core";
import { IconCheck, IconCopy } from "@tabler/icons-react";

/** Icon button that copies a value. */
export function CopyIconButton({ value, label }: { value: string; label: string }) {
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

/** Button that copies a value. */
export function CopyTextButton({ value, label }: { value: string; label: string }) {
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

/** Code block with a copy button. */
export function Snippet({ text, label }: { text: string; label: string }) {
  return (
    <Box pos="relative" ta="left" pr={40} className="sunken" bdrs="sm">
      <Code block tabIndex={0} aria-label={label} fz="sm" style={{ overflowX: "auto" }}>
        {text}
      </Code>
      <Box pos="absolute" top={8} right={8}>
        <CopyIconButton value={text} label="Copy" />
      </Box>
    </Box>
  );
}
