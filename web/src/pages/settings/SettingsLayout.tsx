import { Box, Tabs } from "@mantine/core";
import { Outlet, useLocation, useNavigate } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import { useAccess, useOrg } from "@/data/me";
import { SETTINGS_TABS, visiblePages } from "@/shell/navigation";
import styles from "./settings.module.css";

/** Tabs of the organization's settings. */
export function SettingsLayout() {
  const org = useOrg();
  const visible = visiblePages(useAccess(), SETTINGS_TABS);
  const { pathname } = useLocation();
  const navigate = useNavigate();
  const current = SETTINGS_TABS.find(tab => pathname.startsWith(tab.to.replace("$org", org)));
  const tabs = useRef<HTMLDivElement>(null);
  const at = current?.to;
  // Where the tabs do not fit, scroll the selected one into view.
  useEffect(() => {
    const open = at && tabs.current?.querySelector<HTMLElement>("[aria-selected=true]");
    if (open)
      tabs.current?.scrollTo({ left: open.offsetLeft - (tabs.current.clientWidth - open.offsetWidth) / 2 });
  }, [at]);
  return (
    <Box>
      <Tabs
        value={current?.to ?? null}
        onChange={to => {
          const tab = SETTINGS_TABS.find(each => each.to === to);
          if (tab) navigate({ to: tab.to, params: { org } });
        }}
        mb="lg"
        activateTabWithKeyboard={false}
      >
        <Tabs.List ref={tabs} aria-label="Organization Settings" className={styles.tabs}>
          {visible.map(tab => (
            <Tabs.Tab key={tab.to} value={tab.to} className={styles.tab}>
              {tab.label}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        {current && (
          <Tabs.Panel value={current.to} pt="lg">
            <Outlet />
          </Tabs.Panel>
        )}
      </Tabs>
      {!current && <Outlet />}
    </Box>
  );
}
