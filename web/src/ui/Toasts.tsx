import { Notifications } from "@mantine/notifications";

const SHOWN_MAX = 4;

/** Container for toasts; loaded after the page. */
export default function Toasts() {
  return <Notifications position="bottom-right" limit={SHOWN_MAX} />;
}
