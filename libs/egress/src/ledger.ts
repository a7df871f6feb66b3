/**
 * Records what one execution reached, transferred and installed, and what was refused. Bounded, so that a
 * program cannot fill the worker's memory.
 */
import type { RefusalRule, Refused } from './refusal.ts'

/** An execution may reach at least this many hosts. The audit row lists them all, so there is a limit. */
const MIN_HOSTS = 256
/** A longer list tells a reader nothing more. */
const MAX_REFUSALS = 256
/** The bounds of the install report in the contract. */
const MAX_INSTALLED = 2000
const MAX_REFUSED_PACKAGES = 100
const MAX_MIRROR_FAILURES = 16
const MAX_REASON = 512
const MAX_NAME = 256

export interface Refusal {
  /** `host:port`. */
  target: string
  rule: RefusalRule
  reason: string
}

export interface Ledger {
  readonly hosts: readonly string[]
  readonly refusals: readonly Refusal[]
  readonly bytes: { received: number; sent: number }
  readonly installed: readonly { name: string; version: string }[]
  readonly refusedPackages: readonly { name: string; reason: string }[]
  /** Packages for which the tenant's rules excluded versions, with those rules. */
  readonly narrowedPackages: readonly { name: string; rule: string }[]
  /** Failures of the mirrors, in words. pip reports them as packages that do not exist. */
  readonly mirrorFailures: readonly string[]
  readonly isExhausted: boolean
  /** Records a host before the connection. False if it cannot be recorded and so must not be connected to. */
  reached(target: string): boolean
  refused(refusal: Refused): void
  /** Counts bytes before they pass. False if they must not pass: the execution has used up its bytes. */
  passes(direction: 'received' | 'sent', bytes: number): boolean
  installedPackage(name: string, version: string): void
  refusedPackage(name: string, reason: string): void
  narrowedPackage(name: string, rule: string): void
  mirrorFailed(reason: string): void
}

/** Creates an empty ledger for `maxBytes` bytes and `maxNames` resolved names. */
export function createLedger(maxBytes: number, maxNames = 0): Ledger {
  const maxHosts = Math.max(MIN_HOSTS, maxNames)
  const hosts = new Set<string>()
  const refusals = new Map<string, Refusal>()
  const installed = new Map<string, { name: string; version: string }>()
  const refusedPackages = new Map<string, { name: string; reason: string }>()
  const narrowedPackages = new Map<string, { name: string; rule: string }>()
  const mirrorFailures = new Set<string>()
  const bytes = { received: 0, sent: 0 }
  let exhausted = false

  const put = <T>(into: Map<string, T>, max: number, value: T): void => {
    const key = JSON.stringify(value)
    if (into.size < max) into.set(key, value)
  }
  return {
    get hosts() {
      return [...hosts]
    },
    get refusals() {
      return [...refusals.values()]
    },
    get installed() {
      return [...installed.values()]
    },
    get refusedPackages() {
      return [...refusedPackages.values()]
    },
    get narrowedPackages() {
      return [...narrowedPackages.values()]
    },
    get mirrorFailures() {
      return [...mirrorFailures]
    },
    get bytes() {
      return { ...bytes }
    },
    get isExhausted() {
      return exhausted
    },
    reached(target) {
      if (hosts.size < maxHosts) hosts.add(target)
      return hosts.has(target)
    },
    refused({ target, rule, message }) {
      put(refusals, MAX_REFUSALS, { target, rule, reason: message.slice(0, MAX_REASON) })
    },
    passes(direction, count) {
      if (exhausted) return false
      if (bytes.received + bytes.sent + count > maxBytes) {
        exhausted = true
        return false
      }
      bytes[direction] += count
      return true
    },
    installedPackage(name, version) {
      put(installed, MAX_INSTALLED, { name: name.slice(0, MAX_NAME), version: version.slice(0, 128) })
    },
    refusedPackage(name, reason) {
      put(refusedPackages, MAX_REFUSED_PACKAGES, {
        name: name.slice(0, MAX_NAME),
        reason: reason.slice(0, MAX_REASON),
      })
    },
    narrowedPackage(name, rule) {
      put(narrowedPackages, MAX_REFUSED_PACKAGES, {
        name: name.slice(0, MAX_NAME),
        rule: rule.slice(0, MAX_REASON),
      })
    },
    mirrorFailed(reason) {
      if (mirrorFailures.size < MAX_MIRROR_FAILURES) mirrorFailures.add(reason.slice(0, MAX_REASON))
    },
  }
}
