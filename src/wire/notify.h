/*
 * notify.h - notifies a service manager of the server's state (the protocol of sd_notify(3), without its library)
 */
#ifndef HTH_WIRE_NOTIFY_H
#define HTH_WIRE_NOTIFY_H

/* Send "READY=1" or "STOPPING=1". Does nothing if $NOTIFY_SOCKET is not set. Never blocks. */
void hth_notify(const char *state);

#endif
