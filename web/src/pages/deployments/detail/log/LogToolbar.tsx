import { ActionIcon } from "@mantine/core";
import { IconDownload, IconLink, IconTextWrap } from "@tabler/icons-react";
import { type LogSource, logUrl } from "@/data/logs";
import { toast } from "@/ui/toast";

type Props = { source: LogSource; wrap: boolean; hasChosen: boolean; onWrap: () => void };

/** Toolbar of the log: wrap, link, download. */
export function LogToolbar({ source, wrap, hasChosen, onWrap }: Props) {
  const link = hasChosen ? "Copy link to these lines" : "Copy link to this log";
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
          navigator.clipboard.writeText(window.location.href).then(() => toast.success("Link copied"))
        }
      >
        <IconLink size={16} />
      </ActionIcon>
      <ActionIcon
        title="Download raw log"
        component="a"
        variant="subtle"
        color="gray"
        href={logUrl(source, { raw: "true" })}
        download
        aria-label="Download raw log"
      >
        <IconDownload size={16} />
      </ActionIcon>
    </>
  );
}
