/** True for a page of a gateway that says 2xx (a login, a captive portal): whoever was asked did not answer, nor do what it was asked for. */
export const isGatewayPage = (response: Response): boolean =>
  response.ok && (response.headers.get('content-type') ?? '').includes('text/html')
