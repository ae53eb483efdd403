import { Button, Group, Switch } from "@mantine/core";
import { IconAdjustmentsHorizontal, IconX } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { useMe, useOrg } from "@/data/me";
import { membersQuery } from "@/data/members";
import { pipelineQuery } from "@/data/pipelines";
import { formatEventKind } from "@/ui/events/eventKind";
import { AuditLogFilters } from "./AuditLogFilters";

const ROUTE = "/o/$org/events";

/** Kinds with a chip of their own. */
const COMMON_KINDS = [
  ["deployment_failed", "Failures"],
  ["deployment_succeeded", "Successes"],
  ["deployment_rolled_back", "Rollbacks"],
  ["approval_voted", "Approvals"],
  ["session_claimed", "Claims"],
  ["session_overridden", "Takeovers"],
] as const;

const CHIP = { size: "compact-sm", radius: "xl", fw: 500 } as const;

/** Filters as chips: common ones to switch on, and those in use to remove. All are in the URL, so a list can be shared. */
export function FilterChips() {
  const search = useSearch({ from: ROUTE });
  const navigate = useNavigate({ from: ROUTE });
  const me = useMe().user.id;
  const [isOpen, setOpen] = useState(false);
  const active = useActiveFilters();
  const set = (change: Partial<typeof search>) =>
    navigate({
      search: now =>
        Object.fromEntries(Object.entries({ ...now, ...change }).filter(([, value]) => Boolean(value))),
      replace: true,
      resetScroll: false,
    });
  const toggle = (name: keyof typeof search, value: string) => ({
    "aria-pressed": search[name] === value,
    variant: search[name] === value ? "filled" : "default",
    onClick: () => set({ [name]: search[name] === value ? undefined : value }),
  });
  return (
    <>
      <Group gap={6} role="group" aria-label="Filters">
        <Button {...CHIP} {...toggle("actor", me)}>
          By me
        </Button>
        {COMMON_KINDS.map(([kind, label]) => (
          <Button key={kind} {...CHIP} {...toggle("kind", kind)}>
            {label}
          </Button>
        ))}
        {active.map(({ name, label }) => (
          <Button
            key={name}
            {...CHIP}
            variant="filled"
            rightSection={<IconX size={13} aria-hidden />}
            aria-label={`Remove filter: ${label}`}
            onClick={() => set({ [name]: undefined })}
          >
            {label}
          </Button>
        ))}
        <Button
          {...CHIP}
          variant="subtle"
          leftSection={<IconAdjustmentsHorizontal size={14} aria-hidden />}
          aria-expanded={isOpen}
          onClick={() => setOpen(!isOpen)}
        >
          More filters
        </Button>
        <Switch
          ml="auto"
          size="xs"
          label="Group by deployment"
          checked={search.flat === undefined && search.deployment === undefined}
          disabled={search.deployment !== undefined}
          onChange={event => set({ flat: event.currentTarget.checked ? undefined : "1" })}
        />
      </Group>
      {isOpen && <AuditLogFilters set={set} />}
    </>
  );
}

/** The filters in use that have no chip of their own. */
function useActiveFilters() {
  const org = useOrg();
  const me = useMe().user.id;
  const { kind, actor, pipeline, deployment, environment, from, to } = useSearch({ from: ROUTE });
  const members = useQuery({ ...membersQuery(org), enabled: actor !== undefined && actor !== me });
  const found = useQuery({ ...pipelineQuery(org, pipeline ?? ""), enabled: pipeline !== undefined });
  const isCommon = COMMON_KINDS.some(([each]) => each === kind);
  const day = (at: string) =>
    new Date(at).toLocaleDateString("en-GB", { dateStyle: "medium", timeZone: "UTC" });
  return [
    kind && !isCommon && { name: "kind", label: formatEventKind(kind) },
    actor &&
      actor !== me && {
        name: "actor",
        label: `By ${members.data?.data.find(each => each.id === actor)?.name ?? "one member"}`,
      },
    pipeline && { name: "pipeline", label: `In ${found.data?.name ?? "one pipeline"}` },
    deployment && { name: "deployment", label: "One deployment" },
    environment && { name: "environment", label: "One environment" },
    from && { name: "from", label: `From ${day(from)}` },
    to && { name: "to", label: `Until ${day(to)}` },
  ].filter(each => typeof each === "object");
}
