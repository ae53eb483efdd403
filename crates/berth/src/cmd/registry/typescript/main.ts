// What is started for every call. Which steps there are is said here, and nowhere else.

import { serve } from "./protocol.js";
import { greet } from "./steps/greet.js";
import { rollout } from "./steps/rollout.js";
import { wipe } from "./steps/wipe.js";

await serve([greet, rollout, wipe]);
