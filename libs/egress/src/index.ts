/**
 * What a sandboxed program may reach: an HTTP proxy in the worker, behind the guest agent's channel, and a
 * package proxy.
 */
export { egressConfigSchema, type EgressConfig } from './config.ts'
export {
  createEgress,
  type Egress,
  type EgressOptions,
  type ExecutionEgress,
  type OpenEgress,
} from './create-egress.ts'
export { createJudgedDial, refusalOf, type JudgedDial, type JudgedDialOptions } from './judged-dial.ts'
export type { Refusal } from './ledger.ts'
export { narrowest, type Narrowed } from './network-rules.ts'
export { packageEnvironment } from './package-environment.ts'
export { PACKAGE_HOST } from './packages/create-package-proxy.ts'
export { redirectLock } from './packages/lock-addresses.ts'
export { packageRuleProblems } from './packages/package-rules.ts'
export type { RefusalRule } from './refusal.ts'
export { createResolve, type Resolve } from './resolve.ts'
