import { Page } from "@/ui/Page";

export function Home() {
  return <Page title="Home">{null}</Page>;
}
