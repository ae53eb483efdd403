import { NavLink, type NavLinkProps, Text } from "@mantine/core";
import { createLink, Outlet, useLocation } from "@tanstack/react-router";
import { forwardRef, useEffect, useRef } from "react";
import { useAccess, useOrg } from "@/data/me";
import { SETTINGS_TABS, visiblePages } from "@/shell/navigation";
import styles from "./settings.module.css";

const SettingsLink = createLink(
  forwardRef<HTMLAnchorElement, NavLinkProps>((props, ref) => <NavLink component="a" ref={ref} {...props} />),
);

/** Groups of the settings, in order. */
const GROUPS = ["Organization", "Pipelines", "Integrations"] as const;

/** The organization's settings: their pages at the left, above the page on narrow screens. */
export function SettingsLayout() {
  const org = useOrg();
  const visible = visiblePages(useAccess(), SETTINGS_TABS);
  const { pathname } = useLocation();
  const navigation = useRef<HTMLElement>(null);
  // Where the links do not fit, scroll the current one into view.
  useEffect(() => {
    const row = navigation.current;
    const current = row?.querySelector<HTMLElement>("[aria-current=page]");
    if (row && current && pathname)
      row.scrollTo({ left: current.offsetLeft - (row.clientWidth - current.offsetWidth) / 2 });
  }, [pathname]);
  return (
    <div className={styles.layout}>
      <nav ref={navigation} className={styles.navigation} aria-label="Settings">
        <Text fw={650} size="sm" className={styles.heading}>
          Organization Settings
        </Text>
        {GROUPS.map(group => {
          const pages = visible.filter(page => page.group === group);
          if (pages.length === 0) return null;
          return (
            <div key={group} className={styles.group}>
              <Text size="xs" fw={550} c="dimmed" className={styles.heading}>
                {group}
              </Text>
              {pages.map(page => (
                <SettingsLink
                  key={page.to}
                  to={page.to}
                  params={{ org }}
                  activeOptions={{ includeSearch: false }}
                  label={page.label}
                  className={styles.link}
                />
              ))}
            </div>
          );
        })}
      </nav>
      <div className={styles.page}>
        <Outlet />
      </div>
    </div>
  );
}
