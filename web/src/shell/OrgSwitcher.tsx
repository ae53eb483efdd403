import { Menu } from "@mantine/core";
import { IconCheck } from "@tabler/icons-react";
import { useNavigate } from "@tanstack/react-router";
import { useMe, useOrganization } from "@/data/me";
import { OrgButton } from "./OrgButton";

/** Menu of the user's organizations. */
export default function OrgSwitcher({ isOpened }: { isOpened: boolean }) {
  const me = useMe();
  const current = useOrganization();
  const navigate = useNavigate();
  return (
    <Menu width={240} position="bottom-start" defaultOpened={isOpened}>
      <Menu.Target>
        <OrgButton />
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>Organizations</Menu.Label>
        {me.organizations.map(each => (
          <Menu.Item
            key={each.id}
            rightSection={each.id === current?.id ? <IconCheck size={16} /> : null}
            onClick={() => navigate({ to: "/o/$org", params: { org: each.slug } })}
          >
            {each.name}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}
