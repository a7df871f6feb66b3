/** The part of a pino logger that the store uses. */
export interface StoreLogger {
  warn(data: object, message: string): void
}

export const silentLogger: StoreLogger = { warn() {} }
