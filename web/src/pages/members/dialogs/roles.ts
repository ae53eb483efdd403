import type { Role } from "@/api/types";

export const ROLE_OPTIONS: { value: Role; label: string }[] = [
  { value: "viewer", label: "Viewer: can view everything except secret values" },
  { value: "deployer", label: "Deployer: can claim, deploy and approve" },
  { value: "admin", label: "Admin: can manage pipelines, secrets and members" },
  { value: "owner", label: "Owner: full access" },
];

/** Consequence of assigning each role, also for the member's API tokens. */
export const ROLE_CONSEQUENCES: Record<Role, string> = {
  viewer: "They and their API tokens can view everything except secret values, and change nothing.",
  deployer: "They and their API tokens can claim environments, deploy and approve.",
  admin: "They and their API tokens can manage pipelines, secrets and members, and bypass gates.",
  owner: "They and their API tokens get full access and can change your role.",
};
