/** Host of the dashboard on a local server; only browsers resolve it. */
const LOCAL_DASHBOARD = "//berth.localhost";

/** Server URL for use in commands. */
export const SERVER_URL = location.origin.replace(LOCAL_DASHBOARD, "//127.0.0.1");
