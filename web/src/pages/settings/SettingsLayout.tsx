import { Box, Tabs } from "@mantine/core";
import { Outlet, useLocation, useNavigate } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import { useOrg } from "@/data/me";
import { SETTINGS_TABS } from "@/shell/navigation";
import styles from "./settings.module.css";

/** Tabs of the organization's settings. */
export function SettingsLayout() {
  const org = useOrg();
  const { pathname } = useLocation();
  const navigate = useNavigate();
  const here = SETTINGS_TABS.find(place => pathname.startsWith(place.to.replace("$org", org)));
  const tabs = useRef<HTMLDivElement>(null);
  const at = here?.to;
  // On narrow screens, scroll the selected tab into view.
  useEffect(() => {
    const open = at && tabs.current?.querySelector<HTMLElement>("[aria-selected=true]");
    if (open)
      tabs.current?.scrollTo({ left: open.offsetLeft - (tabs.current.clientWidth - open.offsetWidth) / 2 });
  }, [at]);
  return (
    <Box>
      <Tabs
        value={here?.to ?? null}
        onChange={to => {
          const place = SETTINGS_TABS.find(each => each.to === to);
          if (place) navigate({ to: place.to, params: { org } });
        }}
        mb="lg"
        activateTabWithKeyboard={false}
      >
        <Tabs.List ref={tabs} aria-label="Organization Settings" className={styles.tabs}>
          {SETTINGS_TABS.map(place => (
            <Tabs.Tab key={place.to} value={place.to} style={{ flex: "none" }}>
              {place.label}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        {here && (
          <Tabs.Panel value={here.to} pt="lg">
            <Outlet />
          </Tabs.Panel>
        )}
      </Tabs>
      {!here && <Outlet />}
    </Box>
  );
}
