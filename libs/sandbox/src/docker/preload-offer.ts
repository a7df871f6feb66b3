/** Which preload sets are offered: all configured ones, except those that the image cannot import. */
import { isCofferdamError } from '@cofferdam/contract'
import type { BackendLogger } from '../deps.ts'
import type { Preloads } from '../warm/index.ts'

export interface PreloadOffer {
  names(): readonly string[]
  /** Reasons why sets are not offered, one line each. */
  refusals(): readonly string[]
  /** Handles a failed start: a missing module removes its sets from the offer, a slow start does not. */
  failed(modules: readonly string[], error: unknown): void
}

const MISSING_MODULE = /(?:ModuleNotFoundError|ImportError): .{0,200}/

export function createPreloadOffer(preloads: Preloads, logger: BackendLogger): PreloadOffer {
  const missing = new Map<string, string>()
  return {
    names: () => Object.keys(preloads).filter((name) => !missing.has(name)),
    refusals: () => [...missing].map(([name, why]) => `preload ${name} is not offered: ${why}`),
    failed(modules, error) {
      if (modules.length === 0 || !isCofferdamError(error)) return
      const [why] = MISSING_MODULE.exec(error.message) ?? []
      if (why === undefined) return
      for (const [name, wanted] of Object.entries(preloads)) {
        if (wanted.join() !== modules.join() || missing.has(name)) continue
        missing.set(name, why)
        logger.warn({ preload: name, why }, 'the image cannot import a preload set; it is no longer offered')
      }
    },
  }
}
