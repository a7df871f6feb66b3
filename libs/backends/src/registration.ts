/** One line of the registry: the light facts of a backend now, its code (and SDK) only when it is configured. */
import type { Backend } from '@cofferdam/contract'
import type { z } from 'zod'
import type { BackendDeps } from './deps.ts'

/** What a backend folder's `index.ts` exports. `name` is the registry's key, which the backend reports as its own. */
export interface BackendModule<Config> {
  createBackend(config: Config, deps: BackendDeps, name: string): Backend | Promise<Backend>
}

export interface Registration<Schema extends z.ZodType = z.ZodType> {
  /** One sentence for people: what separates a program from the host here. */
  isolation: string
  /** The folder's own config schema; strict, and `{}` must be valid where the backend can run with no settings. */
  config: Schema
  /** Imports the folder and makes the backend. Parses `config` again, so that callers need no type of it. */
  create(config: unknown, deps: BackendDeps, name: string): Promise<Backend>
}

/** Makes a registry line from a folder's config schema and its lazy import. */
export function register<Schema extends z.ZodType>(line: {
  isolation: string
  config: Schema
  load: () => Promise<BackendModule<z.output<Schema>>>
}): Registration<Schema> {
  return {
    isolation: line.isolation,
    config: line.config,
    create: async (config, deps, name) => {
      const parsed = line.config.parse(config)
      const folder = await line.load()
      return folder.createBackend(parsed, deps, name)
    },
  }
}
