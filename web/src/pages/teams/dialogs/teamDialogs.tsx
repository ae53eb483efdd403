import { NativeSelect, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import type { Team, TeamMember } from "@/api/types";
import { useOrg } from "@/data/me";
import { membersQuery } from "@/data/members";
import {
  useAddTeamMember,
  useCreateTeam,
  useDeleteTeam,
  useRemoveTeamMember,
  useRenameTeam,
} from "@/data/teams";
import { ConfirmDialog } from "@/ui/ConfirmDialog";

const NAME_CHARS_MAX = 120;
const SLUG_CHARS_MAX = 63;

export function NewTeamDialog({ onClose }: { onClose: () => void }) {
  const org = useOrg();
  const navigate = useNavigate();
  const form = useForm({ initialValues: { slug: "", name: "" } });
  const slug = form.values.slug.trim();
  const name = form.values.name.trim();
  return (
    <ConfirmDialog
      onClose={onClose}
      title="Create team"
      action="Create"
      mutation={useCreateTeam(org)}
      input={slug === "" ? null : { slug, name: name || undefined }}
      success={team => `Team ${team.name} created`}
      onSuccess={team =>
        navigate({ to: "/o/$org/settings/teams/$teamId", params: { org, teamId: team.slug } })
      }
    >
      <TextInput
        label="Slug"
        description="Name in URLs and in definitions, as in team:sre. It cannot be changed."
        placeholder="sre"
        required
        data-autofocus
        spellCheck={false}
        maxLength={SLUG_CHARS_MAX}
        {...form.getInputProps("slug")}
      />
      <TextInput
        label="Name"
        description="Optional. Defaults to the slug."
        placeholder="Site reliability"
        maxLength={NAME_CHARS_MAX}
        {...form.getInputProps("name")}
      />
    </ConfirmDialog>
  );
}

type TeamDialogProps = { team: Team; onClose: () => void };

export function RenameTeamDialog({ team, onClose }: TeamDialogProps) {
  const form = useForm({ initialValues: { name: team.name } });
  const name = form.values.name.trim();
  return (
    <ConfirmDialog
      onClose={onClose}
      title={`Rename ${team.name}`}
      action="Rename"
      mutation={useRenameTeam(useOrg(), team.id)}
      input={name === "" ? null : name}
      success={renamed => `Team renamed to ${renamed.name}`}
    >
      <TextInput label="Name" data-autofocus maxLength={NAME_CHARS_MAX} {...form.getInputProps("name")} />
    </ConfirmDialog>
  );
}

export function DeleteTeamDialog({ team, onClose }: TeamDialogProps) {
  const org = useOrg();
  const navigate = useNavigate();
  return (
    <ConfirmDialog
      onClose={onClose}
      title={`Delete ${team.name}?`}
      action="Delete team"
      danger
      mutation={useDeleteTeam(org)}
      input={team.id}
      success={() => `Team ${team.name} deleted`}
      onSuccess={() => navigate({ to: "/o/$org/settings/teams", params: { org } })}
    >
      <Text size="sm">
        Its grants are deleted and its members lose that access immediately. They stay in the organization.
        Approvals that ask for <code>team:{team.slug}</code> can no longer be given by it.
      </Text>
    </ConfirmDialog>
  );
}

type AddMemberProps = TeamDialogProps & { current: TeamMember[] };

export function AddTeamMemberDialog({ team, current, onClose }: AddMemberProps) {
  const org = useOrg();
  const members = useQuery(membersQuery(org)).data?.data ?? [];
  const others = members.filter(each => !current.some(member => member.id === each.id));
  const form = useForm({ initialValues: { userId: "" } });
  return (
    <ConfirmDialog
      onClose={onClose}
      title={`Add a member to ${team.name}`}
      action="Add"
      mutation={useAddTeamMember(org, team.id)}
      input={form.values.userId || null}
      success={added => `${added.name} added to ${team.name}`}
    >
      <NativeSelect
        label="Member"
        data={[
          { value: "", label: "Select a member" },
          ...others.map(each => ({ value: each.id, label: `${each.name} (${each.email})` })),
        ]}
        data-autofocus
        {...form.getInputProps("userId")}
      />
    </ConfirmDialog>
  );
}

type RemoveMemberProps = TeamDialogProps & { member: TeamMember };

export function RemoveTeamMemberDialog({ team, member, onClose }: RemoveMemberProps) {
  return (
    <ConfirmDialog
      onClose={onClose}
      title={`Remove ${member.name} from ${team.name}?`}
      action="Remove"
      danger
      mutation={useRemoveTeamMember(useOrg(), team.id)}
      input={member.id}
      success={() => `${member.name} removed from ${team.name}`}
    >
      <Text size="sm">They lose the access that comes from this team immediately.</Text>
    </ConfirmDialog>
  );
}
