import type { Role } from "@/api/types";

export const ROLES: { value: Role; label: string }[] = [
  { value: "viewer", label: "Viewer: sees everything but secrets' values" },
  { value: "deployer", label: "Deployer: claims, deploys, approves" },
  { value: "admin", label: "Admin: changes pipelines, secrets, members" },
  { value: "owner", label: "Owner: everything" },
];

/** What a member can do from the moment they have a role; their API tokens included. */
export const CONSEQUENCES: Record<Role, string> = {
  viewer: "They and their API tokens can look at everything but secrets' values, and change nothing.",
  deployer: "They and their API tokens can claim environments, deploy and approve.",
  admin: "They and their API tokens can change pipelines, secrets and members, and bypass gates.",
  owner: "They and their API tokens can do everything, including changing your role.",
};
