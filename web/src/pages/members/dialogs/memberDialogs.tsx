import { Text } from "@mantine/core";
import type { Member, Role } from "@/api/types";
import { useLogOutMember } from "@/data/logins";
import { useOrg } from "@/data/me";
import { useChangeRole, useRemoveMember } from "@/data/members";
import { useResetSecondFactor } from "@/data/secondFactor";
import { ROLE_CONSEQUENCES } from "@/format/access";
import { ConfirmDialog } from "@/ui/ConfirmDialog";

type Props = { member: Member; onClose: () => void };

export function ChangeRoleDialog({ member, role, onClose }: Props & { role: Role }) {
  const change = useChangeRole(useOrg());
  return (
    <ConfirmDialog
      onClose={onClose}
      title={`Change the role of ${member.name} to ${role}?`}
      action="Change role"
      mutation={change}
      input={{ userId: member.id, role }}
      success={() => `Role of ${member.name} changed to ${role}`}
    >
      <Text size="sm">{ROLE_CONSEQUENCES[role]}</Text>
    </ConfirmDialog>
  );
}

export function LogOutMemberDialog({ member, onClose }: Props) {
  const end = useLogOutMember(useOrg());
  return (
    <ConfirmDialog
      onClose={onClose}
      title={`Log ${member.name} out everywhere?`}
      action="Log out"
      danger
      mutation={end}
      input={member.id}
      success={() => `${member.name} logged out everywhere`}
    >
      <Text size="sm">
        All browsers of {member.name} have to log in again, also for other organizations. API tokens stay
        valid.
      </Text>
    </ConfirmDialog>
  );
}

export function RemoveMemberDialog({ member, onClose }: Props) {
  const remove = useRemoveMember(useOrg());
  return (
    <ConfirmDialog
      onClose={onClose}
      title={`Remove ${member.name}?`}
      action="Remove"
      danger
      mutation={remove}
      input={member.id}
      success={() => `${member.name} removed`}
    >
      <Text size="sm">
        Their tokens for this organization stop working immediately. Their events stay in the audit log.
      </Text>
    </ConfirmDialog>
  );
}

export function ResetSecondFactorDialog({ member, onClose }: Props) {
  const reset = useResetSecondFactor(useOrg());
  return (
    <ConfirmDialog
      onClose={onClose}
      title={`Reset the second factor of ${member.name}?`}
      action="Reset"
      danger
      mutation={reset}
      input={member.id}
      success={() => `Second factor of ${member.name} reset`}
    >
      <Text size="sm">
        Do this if {member.name} has lost both the phone and the recovery codes. Until they set up a new one,
        their password is enough to log in. Make sure that the request really comes from them.
      </Text>
    </ConfirmDialog>
  );
}
