import type { Role } from "@/api/types";

export const ROLES: { value: Role; label: string }[] = [
  { value: "viewer", label: "Viewer: sees everything but secrets' values" },
  { value: "deployer", label: "Deployer: claims, deploys, approves" },
  { value: "admin", label: "Admin: changes pipelines, secrets, members" },
  { value: "owner", label: "Owner: everything" },
];
