import { ActionIcon } from "@mantine/core";
import {
  IconArrowsDiagonal,
  IconArrowsDiagonalMinimize2,
  IconDownload,
  IconFold,
  IconLink,
  IconListTree,
  IconTextWrap,
} from "@tabler/icons-react";
import { type LogSource, logUrl } from "@/data/logs";
import { toast } from "@/ui/toast";

type Props = {
  source: LogSource;
  wrap: boolean;
  hasChosen: boolean;
  hasGroups: boolean;
  areAllFolded: boolean;
  isFull: boolean;
  onWrap: () => void;
  onFoldAll: () => void;
  onFull: () => void;
};

const BUTTON = { variant: "subtle", color: "gray" } as const;

/** Toolbar of the log: groups, wrap, link, download, full screen. */
export function LogToolbar(props: Props) {
  const { source, wrap, areAllFolded, isFull } = props;
  const link = props.hasChosen ? "Copy link to these lines" : "Copy link to this log";
  const fold = areAllFolded ? "Expand all groups" : "Collapse all groups";
  const full = isFull ? "Exit full screen" : "Full screen";
  return (
    <>
      {props.hasGroups && (
        <ActionIcon {...BUTTON} title={`${fold} (z)`} aria-label={fold} onClick={props.onFoldAll}>
          {areAllFolded ? <IconListTree size={16} /> : <IconFold size={16} />}
        </ActionIcon>
      )}
      <ActionIcon
        {...BUTTON}
        title="Wrap long lines (w)"
        variant={wrap ? "light" : "subtle"}
        aria-label="Wrap long lines"
        aria-pressed={wrap}
        onClick={props.onWrap}
      >
        <IconTextWrap size={16} />
      </ActionIcon>
      <ActionIcon
        {...BUTTON}
        title={link}
        aria-label={link}
        onClick={() =>
          navigator.clipboard.writeText(window.location.href).then(() => toast.success("Link copied"))
        }
      >
        <IconLink size={16} />
      </ActionIcon>
      <ActionIcon
        {...BUTTON}
        title="Download raw log"
        component="a"
        href={logUrl(source, { raw: "true" })}
        download
        aria-label="Download raw log"
      >
        <IconDownload size={16} />
      </ActionIcon>
      <ActionIcon
        {...BUTTON}
        title={`${full} (${isFull ? "Esc" : "f"})`}
        aria-label={full}
        aria-pressed={isFull}
        onClick={props.onFull}
      >
        {isFull ? <IconArrowsDiagonalMinimize2 size={16} /> : <IconArrowsDiagonal size={16} />}
      </ActionIcon>
    </>
  );
}
