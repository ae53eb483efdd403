/** Short names for what travels. */
import type { components } from "./schema.gen";

type Schemas = components["schemas"];

export type Actor = Schemas["Actor"];
export type ApiToken = Schemas["ApiToken"];
export type Approval = Schemas["Approval"];
export type BlockedBy = Schemas["BlockedBy"];
export type Current = Schemas["Current"];
export type Delivery = Schemas["Delivery"];
export type DeliveryInsights = Schemas["DeliveryInsights"];
export type Deployed = Schemas["Deployed"];
export type DeployedEnvironment = Schemas["DeployedEnvironment"];
export type Deployment = Schemas["Deployment"];
export type DeploymentStage = Schemas["DeploymentStage"];
export type DeploymentStatus = Schemas["DeploymentStatus"];
export type DeploymentStep = Schemas["DeploymentStep"];
export type Environment = Schemas["Environment"];
export type EnvironmentState = Schemas["EnvironmentState"];
export type Event = Schemas["Event"];
export type HistoryEntry = Schemas["HistoryEntry"];
export type Holder = Schemas["Holder"];
export type Insights = Schemas["Insights"];
export type Me = Schemas["Me"];
export type Member = Schemas["Member"];
export type Organization = Schemas["Organization"];
export type Pagination = Schemas["Pagination"];
export type Pipeline = Schemas["Pipeline"];
export type Repository = Schemas["Repository"];
export type Role = Schemas["Role"];
export type Secret = Schemas["Secret"];
export type Session = Schemas["Session"];
export type Stage = Schemas["Stage"];
export type StageStatus = Schemas["StageStatus"];
export type StepStatus = Schemas["StepStatus"];
export type Ticket = Schemas["Ticket"];
export type Webhook = Schemas["Webhook"];
