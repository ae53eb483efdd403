import { List, NativeSelect, SegmentedControl, Text } from "@mantine/core";
import { type ReactNode, useState } from "react";
import type { ConnectionWithSecret, ForgeName, RepositoryConnection } from "@/api/types";
import { useConnectRepository } from "@/data/connections";
import { useOrg } from "@/data/me";
import { ConfirmDialog } from "@/ui/ConfirmDialog";
import { Snippet } from "@/ui/Copy";
import { OneTimeSecretDialog } from "@/ui/OneTimeSecretDialog";
import { toast } from "@/ui/toast";
import { FORGE_LABELS } from "../forgeLabels";
import { AppConnectDialog } from "./AppConnectDialog";

const FORGES = [
  { value: "", label: "Recognize by host name" },
  ...Object.entries(FORGE_LABELS).map(([value, label]) => ({ value, label })),
];

const WAYS = [
  { value: "webhook", label: "Webhook" },
  { value: "app", label: "GitHub App" },
];

export type ConnectionWay = "webhook" | "app";

type Props = { repositoryId: string; way?: ConnectionWay; onClose: () => void };

/** Connects a repository to its forge, with a webhook or through a GitHub App. */
export function ConnectDialog({ repositoryId, way: first = "webhook", onClose }: Props) {
  const [way, setWay] = useState(first);
  const control = (
    <SegmentedControl
      aria-label="How to connect"
      data={WAYS}
      value={way}
      onChange={value => setWay(value as ConnectionWay)}
    />
  );
  const Dialog = way === "app" ? AppConnectDialog : WebhookDialog;
  return (
    <Dialog repositoryId={repositoryId} onClose={onClose}>
      {control}
    </Dialog>
  );
}

export type WayDialogProps = { repositoryId: string; onClose: () => void; children: ReactNode };

/** Connects a repository with a webhook. If Berth could not create it on the forge, shows what to enter, once. */
function WebhookDialog({ repositoryId, onClose, children }: WayDialogProps) {
  const connect = useConnectRepository(useOrg(), repositoryId);
  const [forge, setForge] = useState("");
  if (connect.data?.secret) return <SecretDialog connection={connect.data} onClose={onClose} />;
  return (
    <ConfirmDialog
      onClose={onClose}
      title="Connect this repository?"
      action="Connect"
      mutation={connect}
      input={forge ? { forge: forge as ForgeName } : {}}
      onSuccess={made => {
        if (made.secret) return;
        toast.success(`Connected to ${FORGE_LABELS[made.forge]}`);
        onClose();
      }}
    >
      {children}
      <Text size="sm">
        The forge then notifies Berth about pushes and pull requests. With a credential that allows it, Berth
        creates the webhook itself.
      </Text>
      <NativeSelect
        label="Forge"
        data={FORGES}
        value={forge}
        onChange={event => setForge(event.currentTarget.value)}
      />
    </ConfirmDialog>
  );
}

function SecretDialog({ connection, onClose }: { connection: ConnectionWithSecret; onClose: () => void }) {
  return (
    <OneTimeSecretDialog
      title={`Create the webhook on ${FORGE_LABELS[connection.forge]}`}
      note="Enter this secret in the webhook’s form."
      label="Secret"
      text={connection.secret ?? ""}
      copy="Copy secret"
      size="lg"
      onClose={onClose}
    >
      <Text size="sm" c="dimmed">
        URL of the webhook:
      </Text>
      <Snippet label="URL of the webhook" text={connection.hookUrl} />
      <InstructionList of={connection} />
    </OneTimeSecretDialog>
  );
}

/** How to create the webhook on the forge; nothing if Berth created it. */
export function InstructionList({ of }: { of: RepositoryConnection }) {
  if (of.instructions.length === 0) return null;
  return (
    <List type="ordered" size="sm">
      {of.instructions.map(each => (
        <List.Item key={each} className="wrap">
          {each}
        </List.Item>
      ))}
    </List>
  );
}
