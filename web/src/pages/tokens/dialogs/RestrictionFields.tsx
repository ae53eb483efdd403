import { Checkbox, Fieldset, Radio, SimpleGrid, Stack } from "@mantine/core";
import type { TokenRestriction } from "@/api/types";
import { PERMISSIONS, type Permission } from "@/data/permissions";
import { EMPTY_SCOPE, type ScopeDraft, ScopePicker, toScopeText } from "@/ui/access/ScopePicker";

/** What a token is limited to, while it is entered. */
export type RestrictionDraft = { isRestricted: boolean; permissions: Permission[]; scope: ScopeDraft };

export const UNRESTRICTED: RestrictionDraft = {
  isRestricted: false,
  permissions: [],
  scope: { ...EMPTY_SCOPE, kind: "org" },
};

/** Returns the restriction of a new token: undefined for full access, null while it is incomplete. */
export function toRestriction(draft: RestrictionDraft): TokenRestriction[] | null | undefined {
  if (!draft.isRestricted) return undefined;
  const scope = toScopeText(draft.scope);
  if (scope === null || draft.permissions.length === 0) return null;
  return [{ permissions: draft.permissions, scope }];
}

/** Permissions by the resource in their name, as in `environments:claim`. */
function groupPermissions(): [string, Permission[]][] {
  const groups = new Map<string, Permission[]>();
  for (const permission of Object.keys(PERMISSIONS) as Permission[]) {
    const [group = ""] = permission.split(":");
    groups.set(group, [...(groups.get(group) ?? []), permission]);
  }
  return [...groups];
}

const GROUPS = groupPermissions();

type Props = { value: RestrictionDraft; onChange: (value: RestrictionDraft) => void };

/** Full access, or selected permissions in one scope. */
export function RestrictionFields({ value, onChange }: Props) {
  return (
    <>
      <Radio.Group
        label="Access"
        value={value.isRestricted ? "selected" : "full"}
        onChange={choice => onChange({ ...value, isRestricted: choice === "selected" })}
      >
        <Stack gap={6} mt={6}>
          <Radio value="full" label="Full access of your account" />
          <Radio
            value="selected"
            label="Only selected permissions"
            description="Never more than your account has at the time of a request"
          />
        </Stack>
      </Radio.Group>
      {value.isRestricted && (
        <>
          <Checkbox.Group
            label="Permissions"
            value={value.permissions}
            onChange={permissions => onChange({ ...value, permissions: permissions as Permission[] })}
          >
            <SimpleGrid cols={{ base: 1, xs: 2 }} mt={6} spacing="xs">
              {GROUPS.map(([group, permissions]) => (
                <Fieldset key={group} legend={group} p="xs">
                  <Stack gap={4}>
                    {permissions.map(permission => (
                      <Checkbox
                        key={permission}
                        size="xs"
                        value={permission}
                        label={permission.slice(group.length + 1).replaceAll("_", " ")}
                        aria-label={permission}
                      />
                    ))}
                  </Stack>
                </Fieldset>
              ))}
            </SimpleGrid>
          </Checkbox.Group>
          <ScopePicker
            label="In"
            of="scope"
            value={value.scope}
            onChange={scope => onChange({ ...value, scope })}
          />
        </>
      )}
    </>
  );
}
