/** Mantine theme: colours, fonts and component defaults. */
import { type CSSVariablesResolver, createTheme, type MantineColorsTuple } from "@mantine/core";

const tide: MantineColorsTuple = [
  "#eaf5f6",
  "#d6e8ea",
  "#abd1d6",
  "#7cb8c1",
  "#54a2ae",
  "#3a94a1",
  "#22808e",
  "#126a78",
  "#0b5a67",
  "#044955",
];

const kelp: MantineColorsTuple = [
  "#e8f7ef",
  "#d3ebdf",
  "#a6d6bf",
  "#76c09d",
  "#4eae80",
  "#35a26e",
  "#249b63",
  "#158053",
  "#0b7248",
  "#00623b",
];

const buoy: MantineColorsTuple = [
  "#fff0ee",
  "#fbdedb",
  "#f3b9b3",
  "#f0978f",
  "#e7685e",
  "#de4a3f",
  "#cc332a",
  "#b3261e",
  "#9e1d17",
  "#861611",
];

const lantern: MantineColorsTuple = [
  "#fff7e1",
  "#fcecc9",
  "#f6d897",
  "#f0c360",
  "#ebb134",
  "#e3a318",
  "#b97f00",
  "#946500",
  "#835800",
  "#6f4a00",
];

const slate: MantineColorsTuple = [
  "#f4f7f8",
  "#e9eef0",
  "#dbe3e6",
  "#c6d1d6",
  "#a3b2b9",
  "#7c8d96",
  "#5d6e78",
  "#465660",
  "#2d3b44",
  "#1a252c",
];

const night: MantineColorsTuple = [
  "#dbe4e8",
  "#b9c6cd",
  "#93a4ae",
  "#6f828d",
  "#42545f",
  "#2f404a",
  "#22313a",
  "#17242c",
  "#101b22",
  "#0a1318",
];

/** The only shadow, for what floats above the page. */
const SHADOW = "0 4px 16px rgb(0 0 0 / 14%)";

function rem(px: number): string {
  return `${px / 16}rem`;
}

export const theme = createTheme({
  primaryColor: "tide",
  primaryShade: { light: 8, dark: 7 },
  colors: { tide, kelp, buoy, lantern, gray: slate, dark: night },
  autoContrast: true,
  luminanceThreshold: 0.36,
  fontFamily: '"Inter Variable", system-ui, -apple-system, "Segoe UI", sans-serif',
  fontFamilyMonospace: 'ui-monospace, "SF Mono", "JetBrains Mono", "DejaVu Sans Mono", Menlo, monospace',
  // Type scale: 24 title, 16 section, 14 text, 12 label; code is 13.
  fontSizes: { xs: rem(12), sm: rem(14), md: rem(14), lg: rem(16), xl: rem(24) },
  lineHeights: { xs: "1.4", sm: "1.45", md: "1.45", lg: "1.45", xl: "1.3" },
  headings: {
    fontWeight: "600",
    sizes: {
      h1: { fontSize: rem(24), lineHeight: "1.3" },
      h2: { fontSize: rem(16), lineHeight: "1.45" },
      h3: { fontSize: rem(14), lineHeight: "1.45" },
    },
  },
  spacing: { xs: rem(8), sm: rem(12), md: rem(16), lg: rem(24), xl: rem(32) },
  radius: { xs: rem(4), sm: rem(8), md: rem(8), lg: rem(8), xl: rem(32) },
  shadows: { xs: SHADOW, sm: SHADOW, md: SHADOW, lg: SHADOW, xl: SHADOW },
  defaultRadius: "md",
  cursorType: "pointer",
  focusRing: "auto",
  respectReducedMotion: true,
  // Plain objects: importing the components would add them to the initial bundle.
  components: {
    Anchor: { defaultProps: { underline: "always" } },
    Badge: { defaultProps: { variant: "light", tt: "none", fw: 500, radius: "sm" } },
    Button: { defaultProps: { fw: 500 } },
    Card: { defaultProps: { withBorder: true, padding: "md" } },
    Modal: {
      defaultProps: {
        centered: true,
        overlayProps: { backgroundOpacity: 0.45, blur: 2 },
        closeButtonProps: { "aria-label": "Close" },
      },
    },
    Notification: { defaultProps: { closeButtonProps: { "aria-label": "Close" } } },
  },
});

export const variables: CSSVariablesResolver = () => ({
  // White initials are readable on each of them, and each is visible on the surfaces of both themes.
  variables: {
    "--berth-person-0": "#147e8f",
    "--berth-person-1": "#a06808",
    "--berth-person-2": "#178250",
    "--berth-person-3": "#c84185",
    "--berth-person-4": "#8262cb",
    "--berth-person-5": "#c74a23",
    "--berth-person-6": "#3375cc",
    "--berth-person-7": "#5f7e20",
  },
  light: {
    "--mantine-color-body": "#f5f8f8",
    "--mantine-color-text": slate[9],
    "--mantine-color-dimmed": "#586973",
    "--mantine-color-placeholder": "#66767f",
    "--mantine-color-anchor": tide[8],
    "--mantine-color-error": buoy[7],
    "--berth-surface": "#ffffff",
    "--berth-sunken": "#eef3f4",
    "--berth-line": slate[2],
    "--berth-nav": "#06333d",
    "--berth-nav-ink": "#cfe3e6",
    "--berth-nav-active": "rgba(255, 255, 255, 0.12)",
    "--berth-good": kelp[8],
    "--berth-bad": buoy[8],
    "--berth-warn": lantern[8],
    "--berth-busy": "#1d5bb5",
    "--berth-unknown": "#6a3cb0",
    "--berth-quiet": "#586973",
  },
  dark: {
    "--mantine-color-body": night[8],
    "--mantine-color-text": "#dbe4e8",
    "--mantine-color-dimmed": "#9badb7",
    "--mantine-color-placeholder": "#8799a3",
    "--mantine-color-anchor": tide[3],
    "--mantine-color-error": buoy[3],
    "--berth-surface": night[7],
    "--berth-sunken": night[9],
    "--berth-line": night[5],
    "--berth-nav": "#06191f",
    "--berth-nav-ink": "#b4c9cf",
    "--berth-nav-active": "rgba(255, 255, 255, 0.09)",
    "--berth-good": kelp[3],
    "--berth-bad": buoy[3],
    "--berth-warn": lantern[3],
    "--berth-busy": "#7db4f5",
    "--berth-unknown": "#c0a2f2",
    "--berth-quiet": "#9badb7",
  },
});
