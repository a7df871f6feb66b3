/** Caps and leases: may this execution run now. */
export {
  createAdmission,
  LEASE_MS,
  LEDGER_TTL_MS,
  SETTLED_TTL_MS,
  type Admission,
  type AdmissionDeps,
} from './create-admission.ts'
export { createCapsWriter } from './caps-writer.ts'
export { judgeCommand, type CommandJudgement, type CommandRules } from './command-policy/judge-command.ts'
export {
  decidePolicy,
  templateInForce,
  type Environment,
  type PolicyDecision,
  type PolicyFacts,
  type PolicyReason,
} from './decide-policy.ts'
export { effectivePolicy, narrowerNetwork } from './effective-policy.ts'
export { keys, leaseMember, type AttemptKey } from './keys.ts'
export type { EarlierCharge } from './keep-charge.ts'
export { createRateGate } from './rate-gate.ts'
export { missingForRegulated } from './regulated-tier.ts'
export type { Settlement } from './lease.ts'
export type { AttemptName, ChargedCounts } from './seed.ts'
export type { Usage } from './usage.ts'
export { type Admitted, type Dimension, type Lease, type Refused } from './verdict.ts'
