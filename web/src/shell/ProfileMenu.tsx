import { Menu } from "@mantine/core";
import { IconBuilding, IconKeyboard, IconLogout, IconMoon, IconUser } from "@tabler/icons-react";
import { useNavigate } from "@tanstack/react-router";
import { useLogOut, useMe } from "@/data/me";
import { toast } from "@/ui/toast";
import { ProfileButton } from "./ProfileButton";

type Props = { isOpened: boolean; showKeys: () => void; toggleScheme: () => void };

/** Menu of the current user. */
export default function ProfileMenu({ isOpened, showKeys, toggleScheme }: Props) {
  const navigate = useNavigate();
  const logOut = useLogOut();
  const { isInstanceAdmin } = useMe();
  const handleLogOut = () =>
    logOut.mutate(undefined, {
      onSuccess: ({ providerLogoutUrl }) =>
        providerLogoutUrl ? window.location.assign(providerLogoutUrl) : navigate({ to: "/sign-in" }),
      onError: toast.problem,
    });
  return (
    <Menu width={220} position="top-start" defaultOpened={isOpened}>
      <Menu.Target>
        <ProfileButton />
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item leftSection={<IconUser size={16} />} onClick={() => navigate({ to: "/profile" })}>
          Your profile
        </Menu.Item>
        {isInstanceAdmin && (
          <Menu.Item
            leftSection={<IconBuilding size={16} />}
            onClick={() => navigate({ to: "/instance/organizations" })}
          >
            Organizations
          </Menu.Item>
        )}
        <Menu.Item leftSection={<IconMoon size={16} />} onClick={toggleScheme}>
          Toggle theme
        </Menu.Item>
        <Menu.Item leftSection={<IconKeyboard size={16} />} onClick={showKeys}>
          Keyboard shortcuts
        </Menu.Item>
        <Menu.Divider />
        <Menu.Item leftSection={<IconLogout size={16} />} onClick={handleLogOut}>
          Log out
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
