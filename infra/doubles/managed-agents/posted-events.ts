/**
 * The events that a client may post, as the SDK's resources/beta/sessions/events.ts defines them
 * (`BetaManagedAgentsEventParams`). Unknown fields are refused. `user.interrupt`, `user.define_outcome` and
 * `system.message` are refused as well, because the scripted agent could not act on them.
 */
import type {
  BetaManagedAgentsUserCustomToolResultEventParams,
  BetaManagedAgentsUserMessageEventParams,
  BetaManagedAgentsUserToolConfirmationEventParams,
  BetaManagedAgentsUserToolResultEventParams,
} from '@anthropic-ai/sdk/resources/beta/sessions/events'
import { z } from 'zod'

const base64 = z.strictObject({ type: z.literal('base64'), data: z.string(), media_type: z.string() })
const url = z.strictObject({ type: z.literal('url'), url: z.string() })
const file = z.strictObject({ type: z.literal('file'), file_id: z.string() })
const plain = z.strictObject({
  type: z.literal('text'),
  data: z.string(),
  media_type: z.literal('text/plain'),
})

/** SessionToolRunner.ts replaces an empty text by "(no output)", so the service does not take one. */
const text = z.strictObject({ type: z.literal('text'), text: z.string().min(1) })
const image = z.strictObject({ type: z.literal('image'), source: z.union([base64, url, file]) })
const document = z.strictObject({
  type: z.literal('document'),
  source: z.union([base64, plain, url, file]),
  context: z.string().nullable().exactOptional(),
  title: z.string().nullable().exactOptional(),
})
const searchResult = z.strictObject({
  type: z.literal('search_result'),
  source: z.string(),
  title: z.string(),
  content: z.array(text),
  citations: z.strictObject({ enabled: z.boolean() }),
})

const resultContent = z.array(z.discriminatedUnion('type', [text, image, document, searchResult])).max(1000)

const toolResult = z.strictObject({
  type: z.literal('user.tool_result'),
  tool_use_id: z.string(),
  content: resultContent.exactOptional(),
  is_error: z.boolean().nullable().exactOptional(),
})
const customToolResult = z.strictObject({
  type: z.literal('user.custom_tool_result'),
  custom_tool_use_id: z.string(),
  content: resultContent.exactOptional(),
  is_error: z.boolean().nullable().exactOptional(),
})
const confirmation = z
  .strictObject({
    type: z.literal('user.tool_confirmation'),
    tool_use_id: z.string(),
    result: z.enum(['allow', 'deny']),
    deny_message: z.string().nullable().exactOptional(),
  })
  .refine(({ result, deny_message: why }) => result === 'deny' || why === undefined || why === null, {
    error: 'deny_message is only allowed when result is deny',
  })
const message = z.strictObject({
  type: z.literal('user.message'),
  content: z
    .array(z.discriminatedUnion('type', [text, image, document]))
    .min(1)
    .max(1000),
})

const postedEvent = z.discriminatedUnion('type', [toolResult, customToolResult, confirmation, message], {
  error: 'expected a user.message, user.tool_result, user.custom_tool_result or user.tool_confirmation',
})
export type PostedEvent = z.output<typeof postedEvent>

/** Checks the schemas against the published types at compile time. */
export type PublishedPostedEvent =
  | BetaManagedAgentsUserToolResultEventParams
  | BetaManagedAgentsUserCustomToolResultEventParams
  | BetaManagedAgentsUserToolConfirmationEventParams
  | BetaManagedAgentsUserMessageEventParams
postedEvent satisfies z.ZodType<PublishedPostedEvent>

export const postSchema = z.strictObject({ events: z.array(postedEvent).min(1).max(1000) })

/** Events of a session's creation: at most 50 (`SessionCreateParams.initial_events`). */
export const initialEvents = z.array(message).max(50)

/** The text of a message, without its other blocks. */
export const textOf = (event: z.output<typeof message>): string =>
  event.content.map((block) => (block.type === 'text' ? block.text : '')).join('')
