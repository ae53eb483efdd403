import { NativeSelect, Text } from "@mantine/core";
import { useState } from "react";
import { saveAppRepository, useConnectWithApp } from "@/data/connections";
import { useOrg } from "@/data/me";
import { ConfirmDialog } from "@/ui/ConfirmDialog";
import { toast } from "@/ui/toast";
import type { WayDialogProps } from "./ConnectDialog";

const OWNERS = [
  { value: "organization", label: "Organization" },
  { value: "user", label: "Your own account" },
];

/** Connects a repository through a GitHub App. The first time, GitHub creates and installs the app. */
export function AppConnectDialog({ repositoryId, onClose, children }: WayDialogProps) {
  const connect = useConnectWithApp(useOrg(), repositoryId);
  const [owner, setOwner] = useState("organization");
  return (
    <ConfirmDialog
      onClose={onClose}
      title="Connect this repository?"
      action="Connect with a GitHub App"
      mutation={connect}
      input={{ isPersonal: owner === "user" }}
      onSuccess={({ status, url }) => {
        if (status === "connected" || !url) {
          toast.success("Connected through the GitHub App");
          onClose();
          return;
        }
        saveAppRepository(repositoryId);
        window.location.assign(url);
      }}
    >
      {children}
      <Text size="sm">
        The app needs no personal token: Berth uses short-lived tokens for one repository. GitHub asks you to
        create the app the first time, and to install it. It connects all repositories of the account that
        owns it.
      </Text>
      <NativeSelect
        label="Owner of the repository on GitHub"
        data={OWNERS}
        value={owner}
        onChange={event => setOwner(event.currentTarget.value)}
      />
    </ConfirmDialog>
  );
}
