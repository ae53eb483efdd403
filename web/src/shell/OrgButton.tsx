import { Group, Text, UnstyledButton, type UnstyledButtonProps } from "@mantine/core";
import { IconSelector } from "@tabler/icons-react";
import { type ComponentPropsWithoutRef, forwardRef } from "react";
import { useOrganization } from "@/data/me";
import { Logo } from "./Logo";

type Props = UnstyledButtonProps & ComponentPropsWithoutRef<"button">;

/** Shows the current organization; opens the switcher. */
export const OrgButton = forwardRef<HTMLButtonElement, Props>((props, ref) => {
  const current = useOrganization();
  return (
    <UnstyledButton
      ref={ref}
      aria-label={`Organization ${current?.name ?? ""}, switch organization`}
      w="100%"
      p={6}
      {...props}
    >
      <Group wrap="nowrap" gap="sm">
        <Logo />
        <div style={{ flex: 1, minWidth: 0 }}>
          <Text fw={600} c="#fff" className="clamp" lh={1.2}>
            {current?.name ?? "Berth"}
          </Text>
          <Text size="xs" lh={1.3}>
            {current ? current.role : "No organization"}
          </Text>
        </div>
        <IconSelector size={16} aria-hidden />
      </Group>
    </UnstyledButton>
  );
});
