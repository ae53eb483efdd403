/** The host that the dashboard has to itself on a local server; only browsers resolve it. */
const LOCAL_DASHBOARD = "//berth.localhost";

/** The server's address for programs, as commands to copy show it. */
export const SERVER_URL = location.origin.replace(LOCAL_DASHBOARD, "//127.0.0.1");
