/** What a producer imports: enqueue, run, wait, stream and cancel executions. */
export { createClient, type ClientOptions } from './create-client.ts'
export type { CancelStatus, Client, RunOptions, StreamOptions, WaitOptions } from './client.ts'
