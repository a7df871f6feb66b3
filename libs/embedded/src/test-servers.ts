/**
 * vitest globalSetup: `globalSetup: ['libs/embedded/src/test-servers.ts']`. A server starts when a test first
 * requests it through `@cofferdam/embedded/testing` or `@cofferdam/store/testing`, and stops after the run.
 */
import type { TestProject } from 'vitest/node'
import { openServerBroker } from './server-broker.ts'

declare module 'vitest' {
  export interface ProvidedContext {
    /** Path of the broker's socket (server-broker.ts). */
    cofferdamServers: string | undefined
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const broker = await openServerBroker()
  project.provide('cofferdamServers', broker.socketPath)
  return () => broker.close()
}
