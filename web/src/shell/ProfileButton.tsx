import { Group, Text, UnstyledButton, type UnstyledButtonProps } from "@mantine/core";
import { type ComponentPropsWithoutRef, forwardRef } from "react";
import { useMe } from "@/data/me";
import { PersonAvatar } from "@/ui/PersonAvatar";

type Props = UnstyledButtonProps & ComponentPropsWithoutRef<"button">;

/** Shows the current user; opens the profile menu. */
export const ProfileButton = forwardRef<HTMLButtonElement, Props>((props, ref) => {
  const { user } = useMe();
  return (
    <UnstyledButton ref={ref} aria-label={`${user.name}, user menu`} w="100%" p={6} {...props}>
      <Group wrap="nowrap" gap="sm">
        <PersonAvatar name={user.name} size={30} />
        <div style={{ minWidth: 0 }}>
          <Text size="sm" fw={500} c="#fff" className="clamp" lh={1.25}>
            {user.name}
          </Text>
          <Text size="xs" className="clamp" lh={1.3}>
            {user.email}
          </Text>
        </div>
      </Group>
    </UnstyledButton>
  );
});
