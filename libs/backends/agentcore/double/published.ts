/**
 * The wire format of AgentCore Code Interpreter as AWS publishes it: the service models behind
 * `@aws-sdk/client-bedrock-agentcore` 3.1141 and `@aws-sdk/client-bedrock-agentcore-control` 3.1142
 * (`dist-es/schemas/schemas_0.js`). `test/published.test.ts` compares every shape here with those models.
 */
import { z } from 'zod'
import { createPublished, type Operation } from '@cofferdam/backend-remote/double'

const DATA = 'client-bedrock-agentcore 3.1141'
const CONTROL = 'client-bedrock-agentcore-control 3.1142'

const time = z.iso.datetime()

const structured = z.strictObject({
  taskId: z.string().optional(),
  taskStatus: z.enum(['submitted', 'working', 'completed', 'canceled', 'failed']).optional(),
  stdout: z.string().optional(),
  stderr: z.string().optional(),
  exitCode: z.int().optional(),
  executionTime: z.number().optional(),
})
const resource = z.strictObject({
  type: z.enum(['text', 'blob']),
  uri: z.string().optional(),
  mimeType: z.string().optional(),
  text: z.string().optional(),
  blob: z.base64().optional(),
})
const block = z.strictObject({
  type: z.enum(['text', 'image', 'resource', 'resource_link']),
  text: z.string().optional(),
  data: z.base64().optional(),
  mimeType: z.string().optional(),
  uri: z.string().optional(),
  name: z.string().optional(),
  description: z.string().optional(),
  size: z.int().optional(),
  resource: resource.optional(),
})
const session = z.strictObject({
  codeInterpreterIdentifier: z.string(),
  sessionId: z.string(),
  status: z.enum(['READY', 'TERMINATED']),
  createdAt: time,
  name: z.string().optional(),
  lastUpdatedAt: time.optional(),
})

/** Answers and events of the data plane, by the names of the model. */
export const DATA_SHAPES = {
  StartCodeInterpreterSessionResponse: z.strictObject({
    codeInterpreterIdentifier: z.string(),
    sessionId: z.string(),
    createdAt: time,
  }),
  StopCodeInterpreterSessionResponse: z.strictObject({
    codeInterpreterIdentifier: z.string(),
    sessionId: z.string(),
    lastUpdatedAt: time,
  }),
  GetCodeInterpreterSessionResponse: z.strictObject({
    codeInterpreterIdentifier: z.string(),
    sessionId: z.string(),
    createdAt: time,
    name: z.string().optional(),
    sessionTimeoutSeconds: z.int().optional(),
    status: session.shape.status.optional(),
  }),
  CodeInterpreterSessionSummary: session,
  ListCodeInterpreterSessionsResponse: z.strictObject({
    items: z.array(session),
    nextToken: z.string().optional(),
  }),
  /** An event of InvokeCodeInterpreter. */
  CodeInterpreterResult: z.strictObject({
    content: z.array(block),
    structuredContent: structured.optional(),
    isError: z.boolean().optional(),
  }),
  ContentBlock: block,
  ResourceContent: resource,
  ToolResultStructuredContent: structured,
} as const

const status = z.enum(['CREATING', 'CREATE_FAILED', 'READY', 'DELETING', 'DELETE_FAILED', 'DELETED'])
const summary = z.strictObject({
  codeInterpreterId: z.string(),
  codeInterpreterArn: z.string(),
  name: z.string().optional(),
  description: z.string().optional(),
  status,
  createdAt: time,
  lastUpdatedAt: time.optional(),
})

/** Answers of the control plane, by the names of the model. */
export const CONTROL_SHAPES = {
  CreateCodeInterpreterResponse: z.strictObject({
    codeInterpreterId: z.string(),
    codeInterpreterArn: z.string(),
    createdAt: time,
    status,
  }),
  CodeInterpreterSummary: summary,
  ListCodeInterpretersResponse: z.strictObject({
    codeInterpreterSummaries: z.array(summary),
    nextToken: z.string().optional(),
  }),
  GetCodeInterpreterResponse: z.strictObject({
    codeInterpreterId: z.string(),
    codeInterpreterArn: z.string(),
    name: z.string(),
    description: z.string().optional(),
    executionRoleArn: z.string().optional(),
    networkConfiguration: z.strictObject({ networkMode: z.string(), vpcConfig: z.unknown().optional() }),
    status,
    failureReason: z.string().optional(),
    createdAt: time,
    lastUpdatedAt: time,
  }),
  DeleteCodeInterpreterResponse: z.strictObject({
    codeInterpreterId: z.string(),
    status,
    lastUpdatedAt: time,
  }),
} as const

const SESSIONS = '/code-interpreters/[^/]+/sessions'
const at = (path: string): RegExp => new RegExp(`^${path}$`)
const OPERATIONS: readonly Operation[] = [
  {
    source: DATA,
    method: 'PUT',
    path: at(`${SESSIONS}/start`),
    answers: { 200: DATA_SHAPES.StartCodeInterpreterSessionResponse },
  },
  {
    source: DATA,
    method: 'PUT',
    path: at(`${SESSIONS}/stop`),
    answers: { 200: DATA_SHAPES.StopCodeInterpreterSessionResponse },
  },
  {
    source: DATA,
    method: 'GET',
    path: at(`${SESSIONS}/get`),
    answers: { 200: DATA_SHAPES.GetCodeInterpreterSessionResponse },
  },
  {
    source: DATA,
    method: 'POST',
    path: at(`${SESSIONS}/list`),
    answers: { 200: DATA_SHAPES.ListCodeInterpreterSessionsResponse },
  },
  {
    source: CONTROL,
    method: 'PUT',
    path: at('/code-interpreters/?'),
    answers: { 202: CONTROL_SHAPES.CreateCodeInterpreterResponse },
  },
  {
    source: CONTROL,
    method: 'POST',
    path: at('/code-interpreters/?'),
    answers: { 200: CONTROL_SHAPES.ListCodeInterpretersResponse },
  },
  {
    source: CONTROL,
    method: 'GET',
    path: at('/code-interpreters/[^/]+'),
    answers: { 200: CONTROL_SHAPES.GetCodeInterpreterResponse },
  },
  {
    source: CONTROL,
    method: 'DELETE',
    path: at('/code-interpreters/[^/]+'),
    answers: { 202: CONTROL_SHAPES.DeleteCodeInterpreterResponse },
  },
]

/** An error has only `message`, except ValidationException: the model requires its `reason`. */
const refusal = z.strictObject({
  message: z.string(),
  reason: z
    .enum([
      'CannotParse',
      'FieldValidationFailed',
      'IdempotentParameterMismatchException',
      'EventInOtherSession',
      'ResourceConflict',
    ])
    .optional(),
  fieldList: z.array(z.strictObject({ name: z.string(), message: z.string() })).optional(),
})

export const AGENTCORE = createPublished('AgentCore', OPERATIONS, refusal)
