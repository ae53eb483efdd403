import { Textarea, type TextareaProps } from "@mantine/core";

const REASON_CHARS_MAX = 1_000;

type Props = Omit<TextareaProps, "onChange"> & { onChange: (reason: string) => void };

/** Text area for a reason or a comment. */
export function ReasonField({ onChange, ...rest }: Props) {
  return (
    <Textarea
      label="Reason"
      maxLength={REASON_CHARS_MAX}
      autosize
      minRows={2}
      onChange={event => onChange(event.currentTarget.value)}
      {...rest}
    />
  );
}
