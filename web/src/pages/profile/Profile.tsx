import { Page } from "@/ui/Page";

export function Profile() {
  return <Page title="Your profile">{null}</Page>;
}
