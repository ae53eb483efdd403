import { Group, Menu, Text, UnstyledButton } from "@mantine/core";
import { IconCheck, IconSelector } from "@tabler/icons-react";
import { useNavigate } from "@tanstack/react-router";
import { useMe, useOrganization } from "@/data/me";
import { Logo } from "./Logo";

/** The organization looked at, and the way to the others. */
export function OrgSwitcher() {
  const me = useMe();
  const current = useOrganization();
  const navigate = useNavigate();
  return (
    <Menu width={240} position="bottom-start">
      <Menu.Target>
        <UnstyledButton aria-label={`Organization ${current?.name ?? ""}, switch`} w="100%" p={6}>
          <Group wrap="nowrap" gap="sm">
            <Logo />
            <div style={{ flex: 1, minWidth: 0 }}>
              <Text fw={650} c="#fff" className="clamp" lh={1.2}>
                {current?.name ?? "Berth"}
              </Text>
              <Text size="xs" lh={1.3}>
                {current ? current.role : "no organization"}
              </Text>
            </div>
            <IconSelector size={16} aria-hidden />
          </Group>
        </UnstyledButton>
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
