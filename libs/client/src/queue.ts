/** The client over Redis, for producers inside the fleet's network: it puts executions into the queue. */
export { createQueueClient, type QueueClientOptions } from './queue-client.ts'
export type { CancelStatus, Client, RunOptions, StreamOptions, WaitOptions } from './client.ts'
