import { ActionIcon } from "@mantine/core";
import { IconDownload, IconLink, IconTextWrap } from "@tabler/icons-react";
import { type LogSource, logAddress } from "@/data/logs";
import { toast } from "@/ui/toast";

type Props = { source: LogSource; wrap: boolean; hasChosen: boolean; onWrap: () => void };

/** What can be done with a log besides reading it. */
export function Tools({ source, wrap, hasChosen, onWrap }: Props) {
  const link = hasChosen ? "Copy a link to these lines" : "Copy a link to this log";
  return (
    <>
      <ActionIcon
        title="Wrap long lines"
        variant={wrap ? "light" : "subtle"}
        color="gray"
        aria-label="Wrap long lines"
        aria-pressed={wrap}
        onClick={onWrap}
      >
        <IconTextWrap size={16} />
      </ActionIcon>
      <ActionIcon
        title={link}
        variant="subtle"
        color="gray"
        aria-label={link}
        onClick={() =>
          navigator.clipboard.writeText(window.location.href).then(() => toast.success("The link is copied."))
        }
      >
        <IconLink size={16} />
      </ActionIcon>
      <ActionIcon
        title="Download the raw log"
        component="a"
        variant="subtle"
        color="gray"
        href={logAddress(source, { raw: "true" })}
        download
        aria-label="Download the raw log"
      >
        <IconDownload size={16} />
      </ActionIcon>
    </>
  );
}
