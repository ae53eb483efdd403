import { Avatar, Group, Menu, Text, UnstyledButton } from "@mantine/core";
import { IconKeyboard, IconLogout, IconMoon, IconUser } from "@tabler/icons-react";
import { useNavigate } from "@tanstack/react-router";
import { useMe, useSignOut } from "@/data/me";
import { tellProblem } from "@/ui/notify";

type Props = { showKeys: () => void; toggleScheme: () => void };

export function ProfileMenu({ showKeys, toggleScheme }: Props) {
  const { user } = useMe();
  const navigate = useNavigate();
  const signOut = useSignOut();
  const leave = () =>
    signOut.mutate(undefined, { onSuccess: () => navigate({ to: "/sign-in" }), onError: tellProblem });
  return (
    <Menu width={220} position="top-start">
      <Menu.Target>
        <UnstyledButton aria-label={`${user.name}, your menu`} w="100%" p={6}>
          <Group wrap="nowrap" gap="sm">
            <Avatar name={user.name} color="tide.2" variant="filled" size={30} radius="xl" />
            <div style={{ minWidth: 0 }}>
              <Text size="sm" fw={550} c="#fff" className="clamp" lh={1.25}>
                {user.name}
              </Text>
              <Text size="xs" className="clamp" lh={1.3}>
                {user.email}
              </Text>
            </div>
          </Group>
        </UnstyledButton>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item leftSection={<IconUser size={16} />} onClick={() => navigate({ to: "/profile" })}>
          Your profile
        </Menu.Item>
        <Menu.Item leftSection={<IconMoon size={16} />} onClick={toggleScheme}>
          Light or dark
        </Menu.Item>
        <Menu.Item leftSection={<IconKeyboard size={16} />} onClick={showKeys}>
          Keys
        </Menu.Item>
        <Menu.Divider />
        <Menu.Item leftSection={<IconLogout size={16} />} onClick={leave}>
          Sign out
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
