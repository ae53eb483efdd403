import { Button, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { toProblem } from "@/api/problem";
import type { InvitationOffer } from "@/api/types";
import { invitationOfferQuery, useJoinOrganization } from "@/data/invitations";
import { useLinkToken } from "@/data/linkToken";
import { meQuery, useLogIn, useLogOut } from "@/data/me";
import { EntryPage } from "@/ui/entry/EntryPage";
import { LoginForm } from "@/ui/entry/LoginForm";
import { LoadingRows } from "@/ui/LoadingRows";
import { ProblemPanel } from "@/ui/ProblemPanel";
import { RelativeTime } from "@/ui/RelativeTime";
import { SignUpForm } from "./SignUpForm";

const TAB_TITLE = "Invitation";

/** Target of invitation links: accepts with a new or an existing account. */
export function InvitationPage() {
  const token = useLinkToken();
  const offer = useQuery({ ...invitationOfferQuery(token), enabled: token !== "" });
  if (token === "")
    return (
      <EntryPage
        name={TAB_TITLE}
        title="Open your invitation link"
        lead="This URL contains no invitation. Open the complete link from your invitation."
      />
    );
  if (offer.data) return <AcceptInvitation offer={offer.data} token={token} />;
  if (offer.isError && toProblem(offer.error).status === 404) return <InvalidInvitation />;
  return (
    <EntryPage name={TAB_TITLE} title="Invitation">
      {offer.isError ? (
        <ProblemPanel error={offer.error} retry={() => offer.refetch()} compact />
      ) : (
        <LoadingRows />
      )}
    </EntryPage>
  );
}

function InvalidInvitation() {
  return (
    <EntryPage
      name={TAB_TITLE}
      title="This invitation is no longer valid"
      lead="It was used or revoked, or has expired. Ask an admin of the organization for a new link."
    />
  );
}

type OfferProps = { offer: InvitationOffer; token: string };

function AcceptInvitation({ offer, token }: OfferProps) {
  const { organization, email, role, invitedBy, expiresAt, hasAccount } = offer;
  const navigate = useNavigate();
  const me = useQuery(meQuery);
  const logIn = useLogIn();
  const logOut = useLogOut();
  const join = useJoinOrganization();
  const openOrganization = () => navigate({ to: "/o/$org", params: { org: organization.slug } });
  if (join.isError && toProblem(join.error).status === 404) return <InvalidInvitation />;

  const user = me.data?.user;
  const isLoggedOut = me.isError && toProblem(me.error).status === 401;
  const isSomeoneElse = user !== undefined && user.email.toLowerCase() !== email.toLowerCase();
  return (
    <EntryPage
      name={TAB_TITLE}
      title={`Join ${organization.name}`}
      lead={
        <>
          {invitedBy} invited {email} as {role}. The link works once and expires{" "}
          <RelativeTime at={expiresAt} />.
        </>
      }
    >
      {me.isPending && <LoadingRows />}
      {me.isError && !isLoggedOut && <ProblemPanel error={me.error} retry={() => me.refetch()} compact />}
      {isLoggedOut && !hasAccount && <SignUpForm offer={offer} token={token} onSuccess={openOrganization} />}
      {isLoggedOut && hasAccount && (
        <>
          <Text size="sm">You already have an account on this server. Log in to accept the invitation.</Text>
          <LoginForm logIn={logIn} email={email} />
        </>
      )}
      {isSomeoneElse && (
        <>
          <Text size="sm" className="wrap">
            You are logged in as {user.email}. Log out to accept the invitation for {email}.
          </Text>
          {logOut.isError && <ProblemPanel error={logOut.error} compact />}
          <Button fullWidth size="md" loading={logOut.isPending} onClick={() => logOut.mutate()}>
            Log out
          </Button>
        </>
      )}
      {user && !isSomeoneElse && (
        <>
          {join.isError && <ProblemPanel error={join.error} compact />}
          <Button
            fullWidth
            size="md"
            loading={join.isPending}
            onClick={() => join.mutate(token, { onSuccess: openOrganization })}
          >
            Join {organization.name}
          </Button>
        </>
      )}
    </EntryPage>
  );
}
